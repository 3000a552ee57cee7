"""Builds the trees of many artefacts at once; each result is kept as soon as it is there."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rl.data.artifacts import Artifact
from rl.data.task_format import TaskRecord
from rl.data.tasks import task_ids
from rl.discovery.construction.build import BuildError, BuildSettings, build_task
from rl.episode.jsonl import RowError, append_row, truncate_rows
from rl.llm.client import ChatClient

_FIRST_BYTES = b'{"id":'  # how every line that was written here begins


@dataclass(frozen=True)
class Progress:
    """Where the building stands; ``failed`` counts by step and reason."""

    wanted: int
    built: int
    failed: Counter[str]

    @property
    def done(self) -> int:
        """The artefacts that need no more work."""
        return self.built + self.failed.total()


class TreeFiles:
    """The task file that grows, and the list of failures of the last run beside it.

    A line is complete or absent: a torn last line, of a process that was killed, is cut off when
    the file is opened again. Nothing is touched before the file has proved to be a task file.
    """

    def __init__(self, out: Path) -> None:
        """Open ``out`` for appending and forget the last run's failures.

        Raises:
            RowError, TaskFileError: what is there already is no task file.
        """
        out = out.resolve()  # a link stays one
        self.out = out
        self.failures = failures_file(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        self.built = _take_up(out)
        self.failures.unlink(missing_ok=True)

    def add(self, task: TaskRecord) -> None:
        """Append a task."""
        append_row(self.out, msgspec.to_builtins(task))

    def fail(self, artifact: Artifact, error: BuildError) -> None:
        """Append a failure: which artefact, at which step, for what reason."""
        row = {
            "id": artifact.id,
            "step": error.step,
            "reason": error.reason.value,
            "detail": str(error),
        }
        append_row(self.failures, row)


async def build_trees(
    artifacts: Sequence[Artifact],
    client: ChatClient,
    settings: BuildSettings,
    files: TreeFiles,
    concurrency: int,
    on_progress: Callable[[Progress], None],
) -> Progress:
    """Build the task of every artefact that ``files`` does not hold yet.

    A failed artefact is written to the failures and counted; the others go on.
    """
    failed: Counter[str] = Counter()
    progress = Progress(len(artifacts), sum(a.id in files.built for a in artifacts), failed)
    slots = asyncio.Semaphore(concurrency)
    state = {"built": progress.built}

    async def build(artifact: Artifact) -> None:
        async with slots:
            try:
                record = await build_task(artifact, client, settings)
                files.add(record)
                state["built"] += 1
            except BuildError as error:
                files.fail(artifact, error)
                failed[f"{error.step}: {error.reason}"] += 1
        on_progress(Progress(len(artifacts), state["built"], failed))

    on_progress(progress)
    async with asyncio.TaskGroup() as group:
        for artifact in artifacts:
            if artifact.id not in files.built:
                group.create_task(build(artifact))
    return Progress(len(artifacts), state["built"], failed)


def failures_file(out: Path) -> Path:
    """Return where the failures of the task file ``out`` are listed."""
    return out.with_name(f"{out.stem}.failed.jsonl")


def _take_up(out: Path) -> set[str]:
    """Return the ids in ``out`` and make its last line whole, or drop it where it is torn."""
    if not out.exists():
        return set()
    if not out.is_file():
        raise RowError(f"{out}: is no file")
    content = out.read_bytes()
    whole, _, last = content.rpartition(b"\n")
    if last and _is_object(last):  # written by somebody else, without the final newline
        whole, last = content, b""
    if last and not last.startswith(_FIRST_BYTES[: len(last)]):
        raise RowError(f"{out}: the last line is no task; is this a task file?")
    ids = task_ids(out, whole)
    if last:
        truncate_rows(out, lambda row: True)
    elif content and not content.endswith(b"\n"):
        with out.open("ab") as file:
            file.write(b"\n")
    return ids


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.MsgspecError, RecursionError):
        return False
