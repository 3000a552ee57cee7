"""What the language model answers at each step of building a tree, and the schemas of that."""

from typing import Any, TypeVar

import msgspec

from rl.llm.client import OutOfSchemaError

Answer = TypeVar("Answer", bound="Strict")


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer that holds the named fields and no others."""


class Requirements(Strict, frozen=True):
    """Step a: the specific requirements that the artefact meets."""

    requirements: tuple[str, ...]


class Statement(Strict, frozen=True):
    """A broader statement; ``covers`` are the numbers of those below that it is a superset of."""

    text: str
    covers: tuple[int, ...]


class Level(Strict, frozen=True):
    """Step b, asked level by level: the statements one step broader than those below.

    ``statements`` is empty when nothing broader would be worth saying.
    """

    statements: tuple[Statement, ...]


class PlacedNode(Strict, frozen=True):
    """Where one statement stands: ``statement`` is its number, ``id`` its dotted place."""

    statement: int
    id: str
    dimension: str
    cues: tuple[str, ...]
    alternatives: tuple[str, ...]


class Forest(Strict, frozen=True):
    """Step c: every statement with its place."""

    nodes: tuple[PlacedNode, ...]


class Opening(Strict, frozen=True):
    """Step d: what the user says first, and the ids of the roots that it names."""

    opening: str
    known: tuple[str, ...]


def schema_of(kind: type[Strict]) -> dict[str, Any]:
    """Return the JSON schema of an answer."""
    return msgspec.json.schema(kind)


def read(kind: type[Answer], text: str) -> Answer:
    """Read an answer.

    Raises:
        OutOfSchemaError: it does not follow the schema.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise OutOfSchemaError(f"not the JSON object that was asked for: {error}") from None
