"""Reads labelled replies: from task files, or from rows that hold their frontier nodes inlined."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rl.data.task_format import (
    FieldError,
    StateRecord,
    describe_decoding_error,
    require_one_of,
    require_text,
)
from rl.data.tasks import TaskFileError, load_tasks, read_lines
from rl.judging.interface import Engagement, JudgeRequest, NodeQuestion, ReplyKind
from rl.judging.labelled import LabelledRequest, labelled_requests


class FrontierNodeRecord(msgspec.Struct):
    """A node that a reply is judged on, as written."""

    id: str
    text: str
    dimension: str
    cues: list[str]
    alternatives: list[str]


class ReplyRow(msgspec.Struct):
    """One labelled reply as written; nodes that ``engaged`` does not name are not engaged."""

    id: str
    task: str
    state: StateRecord
    user: str
    reply: str
    frontier: list[FrontierNodeRecord]
    engaged: dict[str, str]
    kind: str | None = None


class _Probe(msgspec.Struct):
    """Tells the two formats apart by the field that only one of them has."""

    frontier: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_DECODER = msgspec.json.Decoder(ReplyRow)
_PROBE = msgspec.json.Decoder(_Probe)


def load_labelled_replies(paths: Sequence[Path]) -> list[LabelledRequest]:
    """Return the labelled replies of ``paths``: task files, files of rows, or folders of either.

    Raises:
        TaskFileError: a file that cannot be used, or that holds no labelled reply.
    """
    found: list[LabelledRequest] = []
    for file in _files(paths):
        replies = _read_rows(file) if _holds_rows(file) else labelled_requests(load_tasks([file]))
        if not replies:
            raise TaskFileError(f"{file}: no labelled replies")
        found += replies
    return found


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    seen: set[Path] = set()
    for path in paths:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not files:
            raise TaskFileError(f"{path}: the folder holds no .jsonl file")
        for file in files:
            if file.resolve() in seen:
                raise TaskFileError(f"{file}: given twice; its replies would count double")
            seen.add(file.resolve())
            yield file


def _holds_rows(file: Path) -> bool:
    """Return whether the first line has inlined nodes; a broken line is left to the real reader."""
    _, line = next(read_lines(file))
    try:
        return _PROBE.decode(line).frontier is not msgspec.UNSET
    except (msgspec.MsgspecError, RecursionError):
        return False


def _read_rows(file: Path) -> list[LabelledRequest]:
    rows = []
    for number, line in read_lines(file):
        try:
            rows.append(_read_row(line))
        except FieldError as error:
            raise TaskFileError(f"{file}:{number}: {error}") from None
    return rows


def _read_row(line: bytes) -> LabelledRequest:
    try:
        row = _DECODER.decode(line)
    except msgspec.MsgspecError as error:
        raise FieldError(*describe_decoding_error(error)) from None
    except RecursionError:
        raise FieldError("", "invalid JSON: nested too deeply") from None
    _check_row(row)
    return LabelledRequest(
        task=row.task,
        domain=row.task.rsplit("-", 1)[0],
        request=JudgeRequest(
            history=(("user", row.user),),
            reply=row.reply,
            nodes=tuple(
                NodeQuestion(n.id, n.text, n.dimension, tuple(n.cues), tuple(n.alternatives))
                for n in row.frontier
            ),
        ),
        labels=tuple(Engagement(row.engaged.get(n.id, Engagement.NONE)) for n in row.frontier),
        kind=None if row.kind is None else ReplyKind(row.kind),
    )


def _check_row(row: ReplyRow) -> None:
    require_text("task", row.task)
    require_text("reply", row.reply)
    ids = [node.id for node in row.frontier]
    for index, node in enumerate(ids):
        if node in ids[:index]:
            raise FieldError(f"frontier[{index}].id", f"{node!r} is already the id of another node")
    for node, label in row.engaged.items():
        if node not in ids:
            raise FieldError("engaged", f"{node!r} is no frontier node")
        require_one_of(f"engaged[{node!r}]", label, tuple(Engagement))
    if row.kind is not None:
        require_one_of("kind", row.kind, tuple(ReplyKind))
