"""Checkpoints: adapter, optimiser state and progress, made visible by one rename."""

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rl.files import sync
from rl.policy.adapter import AdapterFiles, read_adapter, write_adapter

ADAPTER_FOLDER = "adapter"
_PROGRESS_FILE = "progress.json"
# A checkpoint that is about to be replaced by another one of the same step is still one.
_NAME = re.compile(r"step-(?P<step>\d+)(?P<replaced>\.replaced)?")


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
    failures: Mapping[str, int] = field(default_factory=dict)  # by name, since the run's start


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in memory; ``states`` holds the optimiser's files of every rank."""

    progress: Progress
    adapter: AdapterFiles
    states: tuple[Mapping[str, bytes], ...]


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be continued from."""


def save_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Write ``checkpoint`` under ``folder`` and remove all but the newest ``keep``.

    A crash at any moment leaves whole checkpoints, and at most one folder that starts with a dot
    and is none. The files are on disk before their folder gets its name.
    """
    name = f"step-{checkpoint.progress.step:06d}"
    for left in folder.glob(".step-*"):
        shutil.rmtree(left)
    unfinished, final, replaced = folder / f".{name}", folder / name, folder / f"{name}.replaced"
    _write(checkpoint, unfinished)
    if final.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        final.rename(replaced)
    unfinished.rename(final)
    sync(folder)
    shutil.rmtree(replaced, ignore_errors=True)
    for old in list_checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return final


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the finished checkpoints under ``folder``, oldest first."""
    found = [(match, path) for path in folder.glob("*") if (match := _NAME.fullmatch(path.name))]
    found.sort(key=lambda item: (int(item[0]["step"]), not item[0]["replaced"]))
    return [path for _, path in found if path.is_dir()]


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
        plain = json.loads((newest / _PROGRESS_FILE).read_text(encoding="utf-8"))
        sizes: Mapping[str, int] = plain.pop("files")
        plain |= {"trained": tuple(plain["trained"]), "failed": tuple(plain["failed"])}
        progress = Progress(**plain)
        _check_sizes(newest, sizes)
        adapter = read_adapter(newest / ADAPTER_FOLDER, f"step {progress.step}")
        states = tuple(_read_state(newest, sizes, rank) for rank in range(progress.world_size))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(f"{newest}: damaged checkpoint: {reason}") from error
    return Checkpoint(progress, adapter, states)


def _write(checkpoint: Checkpoint, target: Path) -> None:
    write_adapter(checkpoint.adapter, target / ADAPTER_FOLDER)
    for rank, state in enumerate(checkpoint.states):
        for name, content in state.items():
            file = target / _state_folder(rank) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    files = {str(path.relative_to(target)): path.stat().st_size for path in _files(target)}
    progress = json.dumps({**asdict(checkpoint.progress), "files": files})
    (target / _PROGRESS_FILE).write_text(progress + "\n", encoding="utf-8")
    for path in (*_files(target), *(path for path in target.rglob("*") if path.is_dir()), target):
        sync(path)


def _check_sizes(folder: Path, sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        found = (folder / name).stat().st_size
        if found != size:
            raise ValueError(f"{name} has {found} bytes, {size} were written")


def _read_state(folder: Path, names: Iterable[str], rank: int) -> dict[str, bytes]:
    prefix = f"{_state_folder(rank)}/"
    own = [name for name in names if name.startswith(prefix)]
    return {name.removeprefix(prefix): (folder / name).read_bytes() for name in own}


def _state_folder(rank: int) -> str:
    return f"optimizer/rank-{rank}"


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())
