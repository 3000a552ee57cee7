"""Whole jobs on the tiny model, each run once a session and looked at by many tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load

from rl.config.load import load_config
from rl.config.schema import Config
from rl.config.validate import validate, validate_paths
from rl.episode.jsonl import read_episodes, read_rows
from rl.episode.records import Episode
from rl.policy.adapter import read_adapter
from tests.word_tasks import common_words, write_word_tasks


@dataclass(frozen=True)
class FinishedJob:
    """A run's folder, read back."""

    folder: Path
    config: Config

    @property
    def metrics(self) -> list[dict[str, Any]]:
        return list(read_rows(self.folder / "metrics.jsonl"))

    @property
    def episodes(self) -> list[Episode]:
        return list(read_episodes(self.folder / "episodes.jsonl"))

    @property
    def checkpoints(self) -> list[Path]:
        return sorted((self.folder / "checkpoints").iterdir())


def weights(checkpoint: Path) -> bytes:
    return read_adapter(checkpoint / "adapter", "any").weights


def difference(ours: bytes, theirs: bytes) -> float:
    """Return the largest difference between two adapters' weights."""
    left, right = load(ours), load(theirs)
    assert left.keys() == right.keys()
    return max(float((left[name] - right[name]).abs().max()) for name in left)


def run(folder: Path, given: Sequence[str]) -> FinishedJob:
    """Run a job in this process on the session's Ray; the actors are real processes."""
    from actors.trainer.job import prepare_job, run_job

    config = load_config(list(given))
    validate(config)
    validate_paths(config)
    assert run_job(prepare_job(config)) == 0
    return FinishedJob(folder, config)


def arguments(folder: Path, wandb: str = "disabled") -> list[str]:
    return [
        "model=tiny",
        "optimizer.schedule=constant",
        f"run.wandb_mode={wandb}",
        f"run.dir={folder}",
        "judge.backend=cues",
        f"tasks.files=[{folder.parent / 'words.jsonl'}]",
    ]


def start(folder: Path, *more: str, wandb: str = "disabled") -> FinishedJob:
    return run(folder, [*arguments(folder, wandb), *more])


@pytest.fixture(scope="session")
def runs_dir(tmp_path_factory: pytest.TempPathFactory, tiny_dir: Path) -> Path:
    """Where the jobs' folders lie, with the task file that they share."""
    folder = tmp_path_factory.mktemp("runs")
    write_word_tasks(folder / "words.jsonl", common_words(tiny_dir))
    return folder


@pytest.fixture(scope="session")
def synchronous(local_ray: None, runs_dir: Path) -> FinishedJob:
    """Two synchronous steps, two updates a batch."""
    return start(runs_dir / "sync", "train.steps=2", "grpo.updates_per_batch=2")


@pytest.fixture(scope="session")
def repeated(local_ray: None, runs_dir: Path) -> FinishedJob:
    """The same run started anew, and ended after its first step."""
    return start(runs_dir / "again", "train.steps=1", "grpo.updates_per_batch=2")
