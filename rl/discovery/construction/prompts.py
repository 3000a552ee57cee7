"""How the language model is asked at each step of building a tree."""

from collections.abc import Sequence

Messages = tuple[tuple[str, str], ...]

_ROLE = (
    "You take a finished artefact apart into what its author wanted, from general to specific. "
    "You answer with one JSON object and nothing else."
)


def requirements_messages(artifact_type: str, text: str) -> Messages:
    """Step a: the specific requirements that the artefact meets."""
    return _messages(
        f"Here is an artefact ({artifact_type}):\n\n{text}\n\n"
        "List the requirements that it meets and that another artefact of this type could have "
        "decided otherwise. Each one is one short sentence, specific, independent of the others, "
        "put positively, and not true of every such artefact. Name 3 to 8."
    )


def level_messages(artifact_type: str, below: Sequence[str]) -> Messages:
    """Step b: what is one level broader than ``below``."""
    return _messages(
        f"Somebody wants an artefact ({artifact_type}). These are statements about it:\n"
        f"{numbered(below)}\n\n"
        "Write the next broader level: fewer statements, each a superset of one or more of those "
        "above, so that whatever meets the specific statement meets the broader one. Every number "
        "must be covered. A broader statement must not be true of every artefact of this type. "
        '"covers" holds the numbers. If nothing broader is worth saying, answer with an empty list.'
    )


def forest_messages(artifact_type: str, statements: Sequence[str]) -> Messages:
    """Step c: arrange all statements in a forest and describe each."""
    return _messages(
        f"Somebody wants an artefact ({artifact_type}). These are all statements about it:\n"
        f"{numbered(statements)}\n\n"
        "Arrange them in trees: a broader statement is the parent of the specific ones that it "
        "covers; independent ones have trees of their own. Each number stands there once. "
        '"id" is its place: "1", "2" for the broadest, "1.1" for a child of "1". '
        '"dimension" names what the statement decides, without giving its value away. '
        '"cues" are a few words whose use in a text shows that it meets the statement. '
        '"alternatives" are other values of the same dimension, which this person does not want.'
    )


def opening_messages(artifact_type: str, roots: Sequence[tuple[str, str]]) -> Messages:
    """Step d: the first request of somebody who knows one or two of the ``roots`` (id, text)."""
    listed = "\n".join(f"{node}: {text}" for node, text in roots)
    return _messages(
        f"Somebody wants an artefact ({artifact_type}) and does not know yet what exactly. Their "
        f"broadest wishes are:\n{listed}\n\n"
        "Choose one or two of them that they are aware of, and write their first message to an "
        "assistant: short, with as little effort as people make, naming only those. "
        '"known" holds the ids.'
    )


def numbered(statements: Sequence[str]) -> str:
    """Return the statements one a line, numbered from 1."""
    return "\n".join(f"{number}. {text}" for number, text in enumerate(statements, start=1))


def _messages(content: str) -> Messages:
    return (("system", _ROLE), ("user", content))
