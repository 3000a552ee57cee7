"""Reads ``key=value`` arguments and sets keys, with one clear line for each mistake."""

from collections.abc import Sequence

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rl.config.errors import ConfigError, display, wrong
from rl.config.keys import closest_key, schema_keys

_SCALARS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_LISTS = {float: "a list of numbers, such as [0.9,0.999]", str: "a list of names, such as [a,b]"}


def split_arguments(argv: Sequence[str]) -> dict[str, str]:
    """Return key → raw value of ``key=value`` arguments; text after the first ``=`` is the value.

    Raises:
        ConfigError: an argument without ``=`` or without a key, or a key given twice.
    """
    given: dict[str, str] = {}
    for argument in argv:
        key, separator, value = argument.partition("=")
        if not separator or not key or key != key.strip():
            raise ConfigError(f"{argument}: expected key=value, such as train.steps=6")
        if key in given:
            raise ConfigError(f"{key}={value}: {key} is given twice (first {given[key]!r})")
        given[key] = value
    return given


def set_key(config: DictConfig, name: str, value: object) -> None:
    """Set the dotted key ``name`` of a structured ``config`` to ``value``, converted to its type.

    A value that is text (from the command line) stands for the key's type: ``"6"`` for 6,
    ``"[0.9,0.999]"`` for a list; a text key takes it as it is.

    Raises:
        ConfigError: an unknown key, or a value that is not of the key's type.
    """
    key = schema_keys().get(name)
    if key is None:
        raise _unknown_key(name)
    _check_text(name, value)
    expected = _LISTS[key.element] if key.element else _SCALARS[key.type]
    try:
        if key.element and isinstance(value, str):
            elements = yaml.load(value, yaml.BaseLoader)  # elements stay text
            _check_text(name, elements)
            OmegaConf.update(config, name, elements)
        else:
            OmegaConf.update(config, name, value)
    except (OmegaConfBaseException, yaml.YAMLError, RecursionError):
        raise wrong(name, value, f"expected {expected}") from None


def _check_text(name: str, value: object) -> None:
    """Refuse what is no plain text: OmegaConf's own signs, and what no file name or prompt holds.

    ``${`` would be an interpolation, ``???`` a value that is missing.
    """
    shown = display(value)
    if "${" in shown:
        raise wrong(name, value, "'${' is not allowed")
    if "???" in (value if isinstance(value, list) else [value]):
        raise wrong(name, value, "'???' is not allowed")
    if "\0" in shown or not _is_unicode(shown):
        raise wrong(name, ascii(shown), "expected text in UTF-8, without null characters")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unknown_key(name: str) -> ConfigError:
    inside = [key for key in schema_keys() if key.startswith(f"{name}.")]
    if inside:
        return ConfigError(f"{name} is a group of keys: set one of them, such as {inside[0]}=VALUE")
    return ConfigError(f"unknown key {name}: did you mean {closest_key(name)}?")
