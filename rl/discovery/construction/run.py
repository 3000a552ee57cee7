"""Builds the trees of many artefacts at once; each result is kept as soon as it is there."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rl.data.artifacts import Artifact
from rl.data.task_format import TaskRecord
from rl.data.tasks import load_tasks
from rl.discovery.construction.build import BuildError, BuildSettings, build_task
from rl.episode.jsonl import append_row, truncate_rows
from rl.llm.client import ChatClient


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
    the file is opened again.
    """

    def __init__(self, out: Path) -> None:
        """Open ``out`` for appending and forget the last run's failures.

        Raises:
            RowError, TaskFileError: what is there already is no task file.
        """
        self.out = out
        self.failures = out.with_name(f"{out.stem}.failed.jsonl")
        out.parent.mkdir(parents=True, exist_ok=True)
        truncate_rows(out, lambda row: True)
        self.built = {task.id for task in load_tasks([out])} if _holds_lines(out) else set[str]()
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


def _holds_lines(file: Path) -> bool:
    return file.is_file() and bool(file.read_bytes().strip())
