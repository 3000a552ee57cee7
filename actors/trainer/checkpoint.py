"""Checkpoints: adapter, optimiser state and progress, made visible by one rename."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rl.policy.adapter import AdapterFiles, read_adapter, write_adapter

_PREFIX = "step-"
ADAPTER_FOLDER = "adapter"


@dataclass(frozen=True)
class Progress:
    """Where a run stands: everything but weights that a continued run needs."""

    step: int
    updates: int
    lineage: int
    seed: int
    world_size: int
    trained: tuple[int, ...]
    failed: tuple[int, ...]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in memory; ``states`` holds the optimiser's files of every rank."""

    progress: Progress
    adapter: AdapterFiles
    states: tuple[Mapping[str, bytes], ...]


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be continued from."""


def save_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Write ``checkpoint`` under ``folder`` and remove all but the newest ``keep``."""
    name = f"{_PREFIX}{checkpoint.progress.step:06d}"
    unfinished = folder / f".{name}"
    shutil.rmtree(unfinished, ignore_errors=True)
    write_adapter(checkpoint.adapter, unfinished / ADAPTER_FOLDER)
    for rank, state in enumerate(checkpoint.states):
        for path, content in state.items():
            target = unfinished / "optimizer" / f"rank-{rank}" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    progress = json.dumps(asdict(checkpoint.progress)) + "\n"
    (unfinished / "progress.json").write_text(progress, encoding="utf-8")
    final = folder / name
    if final.exists():
        shutil.rmtree(final)
    unfinished.rename(final)
    for old in list_checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return final


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the finished checkpoints under ``folder``, oldest first."""
    return sorted(path for path in folder.glob(f"{_PREFIX}*") if path.is_dir())


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read the newest checkpoint under ``folder``.

    Raises:
        CheckpointError: there is none, or it is damaged.
    """
    found = list_checkpoints(folder)
    if not found:
        raise CheckpointError(f"{folder}: no checkpoint to continue from")
    newest = found[-1]
    try:
        plain = json.loads((newest / "progress.json").read_text(encoding="utf-8"))
        plain |= {"trained": tuple(plain["trained"]), "failed": tuple(plain["failed"])}
        progress = Progress(**plain)
        adapter = read_adapter(newest / ADAPTER_FOLDER, f"step {progress.step}")
        states = tuple(
            _read_files(newest / "optimizer" / f"rank-{rank}")
            for rank in range(progress.world_size)
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{newest}: damaged checkpoint: {error}") from error
    return Checkpoint(progress, adapter, states)


def _read_files(folder: Path) -> Mapping[str, bytes]:
    files: Sequence[Path] = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
