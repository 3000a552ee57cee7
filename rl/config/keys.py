"""The list of configuration keys, read off the schema: dotted name, type, default, comment."""

import dataclasses
import difflib
import inspect
import io
import tokenize
import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_origin

from rl.config.schema import Config


@dataclasses.dataclass(frozen=True)
class Key:
    """One settable key, e.g. ``train.steps``, of type ``int``."""

    name: str
    type: Any  # a class, or list[str] or list[float]
    default: object
    comment: str

    @property
    def type_name(self) -> str:
        """The type as a reader writes it: ``int``, ``list[str]``."""
        return self.type.__name__ if get_origin(self.type) is None else str(self.type)

    @property
    def element(self) -> type | None:
        """The type of the elements of a list key, else ``None``."""
        return get_args(self.type)[0] if get_origin(self.type) is list else None


@cache
def schema_keys() -> Mapping[str, Key]:
    """Return every key by dotted name, in the schema's order; defaults are the schema's."""
    return types.MappingProxyType({key.name: key for key in _walk(Config, "")})


def key_values(config: Config) -> Iterator[tuple[Key, Any]]:
    """Yield (key, value) for every key of ``config``."""
    for key in schema_keys().values():
        yield key, value_at(config, key.name)


def value_at(config: Config, name: str) -> Any:
    """Return the value of the dotted key ``name``."""
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value


def closest_key(name: str) -> str:
    """Return the valid key that ``name`` was most likely meant to be.

    A key whose last part is the same wins (``steps`` → ``train.steps``), then the most similar.
    """
    keys = list(schema_keys())
    leaf = name.rsplit(".", 1)[-1]
    same_leaf = [key for key in keys if key.rsplit(".", 1)[-1] == leaf]
    if "." not in name and not same_leaf:
        leaves = {key.rsplit(".", 1)[-1]: key for key in reversed(keys)}
        similar = difflib.get_close_matches(leaf, leaves, n=1, cutoff=0.75)
        same_leaf = [leaves[match] for match in similar]
    return difflib.get_close_matches(name, same_leaf or keys, n=1, cutoff=0.0)[0]


def _walk(schema: type, prefix: str) -> Iterator[Key]:
    comments = _field_comments(schema)
    for field in dataclasses.fields(schema):
        name = f"{prefix}{field.name}"
        if isinstance(field.type, type) and dataclasses.is_dataclass(field.type):
            yield from _walk(field.type, f"{name}.")
            continue
        factory = field.default_factory
        default = field.default if factory is dataclasses.MISSING else factory()
        yield Key(name, field.type, default, comments.get(field.name, ""))


def _field_comments(schema: type) -> dict[str, str]:
    """Return the comment that stands on each field's lines in the schema's source."""
    comments: dict[str, str] = {}
    field_names = {field.name for field in dataclasses.fields(schema)}
    field, previous = "", ""
    for token in tokenize.generate_tokens(io.StringIO(inspect.getsource(schema)).readline):
        if token.type == tokenize.OP and token.string == ":" and previous in field_names:
            field = previous
        if token.type == tokenize.COMMENT and field:
            comments.setdefault(field, token.string.lstrip("# "))
        previous = token.string
    return comments
