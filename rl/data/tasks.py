"""Discovery tasks: reads task files and says, in one line, what is wrong with a bad one."""

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path

import msgspec

from rl.data.task_format import FieldError, TaskRecord, check_task, describe_decoding_error
from rl.discovery.tree import IntentNode, IntentTree
from rl.judging.interface import Engagement, ReplyKind

TRAINING_DOMAINS = ("creative_writing", "technical_writing", "svg")
TRANSFER_DOMAINS = ("travel_planning", "web_development")

_DECODER = msgspec.json.Decoder(TaskRecord)


class TaskFileError(ValueError):
    """A task file that cannot be used; the message is one line: FILE:LINE: FIELD: what is wrong."""


@dataclass(frozen=True)
class LabelledReply:
    """An assistant reply with gold labels, given in a state of its task's tree.

    ``engaged`` maps frontier nodes to direct or tangential; unlisted ones are not engaged.
    """

    discovered: frozenset[str]
    emerging: frozenset[str]
    user: str
    reply: str
    kind: ReplyKind
    engaged: Mapping[str, Engagement]


@dataclass(frozen=True)
class Task:
    """One thing a user wants without knowing it yet: an artefact, its intents, the opening.

    ``known`` are the roots that the user is aware of at the start.
    """

    id: str
    domain: str
    artifact_type: str
    artifact: str
    opening: str
    known: tuple[str, ...]
    tree: IntentTree
    replies: tuple[LabelledReply, ...] = ()


def load_tasks(files: Sequence[Path]) -> list[Task]:
    """Read all tasks of ``files``, in order; raise :class:`TaskFileError` at the first fault."""
    tasks: list[Task] = []
    places: dict[str, str] = {}
    for file in files:
        for line, task in _read_tasks(Path(file), read_lines(Path(file))):
            place = f"{file}:{line}"
            if task.id in places:
                raise TaskFileError(f"{place}: id: {task.id!r} is already at {places[task.id]}")
            places[task.id] = place
            tasks.append(task)
    return tasks


def task_ids(file: Path, content: bytes) -> set[str]:
    """Return the ids of the tasks in ``content``, which was read from ``file``.

    Raises :class:`TaskFileError` for a line that is no task.
    """
    return {task.id for _, task in _read_tasks(file, enumerate(content.splitlines(), start=1))}


def bundled_task_files(domains: Sequence[str]) -> list[Path]:
    """Return each domain's bundled task file; raise :class:`TaskFileError` for an unknown one."""
    folder = Path(str(package_files("rl.data"))) / "tasks"
    bundled = {file.stem: file for file in sorted(folder.glob("*.jsonl"))}
    for domain in domains:
        if domain not in bundled:
            raise TaskFileError(
                f"domain {domain!r} has no bundled tasks; there are {', '.join(bundled)}"
            )
    return [bundled[domain] for domain in domains]


def read_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line) for each line of a JSONL file that is not blank.

    Raises:
        TaskFileError: the file cannot be read or holds nothing.
    """
    try:
        lines = file.read_bytes().removeprefix(codecs.BOM_UTF8).splitlines()
    except FileNotFoundError:
        raise TaskFileError(f"{file}: no such file") from None
    except OSError as error:
        raise TaskFileError(f"{file}: cannot be read: {error.strerror}") from None
    if not any(line.strip() for line in lines):
        raise TaskFileError(f"{file}: the file is empty; one JSON object a line is needed")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, line


def _read_tasks(file: Path, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, Task]]:
    """Yield (line number, task) for each line that is not blank."""
    for number, line in lines:
        try:
            if line.strip():
                yield number, _read_task(line)
        except FieldError as error:
            raise TaskFileError(f"{file}:{number}: {error}") from None


def _read_task(line: bytes) -> Task:
    try:
        record = _DECODER.decode(line)
    except msgspec.MsgspecError as error:
        raise FieldError(*describe_decoding_error(error)) from None
    except RecursionError:
        raise FieldError("", "invalid JSON: nested too deeply") from None
    check_task(record)
    tree = msgspec.convert(msgspec.to_builtins(record.tree), tuple[IntentNode, ...])
    return Task(
        id=record.id,
        domain=record.domain,
        artifact_type=record.artifact_type,
        artifact=record.artifact,
        opening=record.opening,
        known=tuple(record.known),
        tree=IntentTree(tree),
        replies=tuple(
            LabelledReply(
                discovered=frozenset(reply.state.discovered),
                emerging=frozenset(reply.state.emerging),
                user=reply.user,
                reply=reply.reply,
                kind=ReplyKind(reply.kind),
                engaged={node: Engagement(label) for node, label in reply.engaged.items()},
            )
            for reply in record.replies
        ),
    )
