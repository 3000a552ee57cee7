"""The format of one line of a task file: its typed records, and the rules that types cannot say."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from rl.judging.interface import Engagement, ReplyKind

_ENGAGED_LABELS = (Engagement.DIRECT, Engagement.TANGENTIAL)
_ARTICLES = {"str": "a string", "int": "an integer", "array": "an array", "object": "an object"}


class FieldError(ValueError):
    """A field that breaks the format. ``field`` is its path, empty for the whole line."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field


class NodeRecord(msgspec.Struct):
    """An intent node as written. All fields are required, so that a mistyped name is noticed."""

    id: str
    text: str
    dimension: str
    cues: list[str]
    alternatives: list[str]
    children: list["NodeRecord"]


class StateRecord(msgspec.Struct):
    """The tree's state before a labelled reply."""

    discovered: list[str]
    emerging: list[str]


class ReplyRecord(msgspec.Struct):
    """A labelled assistant reply as written."""

    state: StateRecord
    user: str
    reply: str
    kind: str
    engaged: dict[str, str]


class TaskRecord(msgspec.Struct):
    """One line of a task file as written; ``replies`` may be left out."""

    id: str
    domain: str
    artifact_type: str
    artifact: str
    opening: str
    known: list[str]
    tree: list[NodeRecord]
    replies: list[ReplyRecord] = []


def describe_decoding_error(error: msgspec.MsgspecError) -> tuple[str, str]:
    """Return (field path, problem) for an error of msgspec, in this project's words."""
    if not isinstance(error, msgspec.ValidationError):
        return "", f"invalid JSON: {error}"
    message, _, path = str(error).partition(" - at `$")
    field = path.rstrip("`").lstrip(".")
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", message):
        return f"{field}.{missing[1]}".lstrip("."), "missing"
    if wrong := re.fullmatch(r"Expected `(\w+)`, got `(\w+)`", message):
        return field, f"expected {_ARTICLES.get(wrong[1], wrong[1])}, got {wrong[2]}"
    return field, message


def check_task(task: TaskRecord) -> None:
    """Raise :class:`FieldError` for the first rule that ``task`` breaks, top to bottom."""
    for field in ("id", "domain", "artifact_type", "artifact", "opening"):
        require_text(field, getattr(task, field))
    if not task.tree:
        raise FieldError("tree", "empty: at least one root is needed")
    roots = [root.id for root in task.tree]
    for index, root in enumerate(task.known):
        if root not in roots:
            raise FieldError(
                f"known[{index}]", f"{root!r} is no root; the roots are {', '.join(roots)}"
            )
    ids: set[str] = set()
    for path, parent, node in _walk("tree", None, task.tree):
        _check_node(path, parent, node, ids)
        ids.add(node.id)
    for index, reply in enumerate(task.replies):
        _check_reply(f"replies[{index}]", reply, ids)


def _walk(
    path: str, parent: str | None, nodes: Sequence[NodeRecord]
) -> Iterator[tuple[str, str | None, NodeRecord]]:
    """Yield (field path, parent's id, node), parents first."""
    for index, node in enumerate(nodes):
        here = f"{path}[{index}]"
        yield here, parent, node
        yield from _walk(f"{here}.children", node.id, node.children)


def _check_node(path: str, parent: str | None, node: NodeRecord, seen: set[str]) -> None:
    require_text(f"{path}.id", node.id)
    above, _, last = node.id.rpartition(".")
    if above != (parent or "") or not last:
        wanted = "one without a dot" if parent is None else f"{parent!r} and one more part"
        raise FieldError(f"{path}.id", f"{node.id!r} is not {wanted}")
    if node.id in seen:
        raise FieldError(f"{path}.id", f"{node.id!r} is already the id of another node")
    require_text(f"{path}.text", node.text)
    require_text(f"{path}.dimension", node.dimension)
    for field in ("cues", "alternatives"):
        for index, value in enumerate(getattr(node, field)):
            require_text(f"{path}.{field}[{index}]", value)


def _check_reply(path: str, reply: ReplyRecord, ids: set[str]) -> None:
    for field in ("discovered", "emerging"):
        for index, node in enumerate(getattr(reply.state, field)):
            if node not in ids:
                raise FieldError(f"{path}.state.{field}[{index}]", f"{node!r} is no node")
    require_text(f"{path}.reply", reply.reply)
    require_one_of(f"{path}.kind", reply.kind, tuple(ReplyKind))
    for node, label in reply.engaged.items():
        if node not in ids:
            raise FieldError(f"{path}.engaged", f"{node!r} is no node")
        require_one_of(f"{path}.engaged[{node!r}]", label, _ENGAGED_LABELS)


def require_text(field: str, value: str) -> None:
    """Raise :class:`FieldError` for a blank text."""
    if not value.strip():
        raise FieldError(field, "empty")


def require_one_of(field: str, value: str, allowed: Sequence[str]) -> None:
    """Raise :class:`FieldError` for a value that is not allowed."""
    if value not in allowed:
        raise FieldError(field, f"expected one of {', '.join(allowed)}, got {value!r}")
