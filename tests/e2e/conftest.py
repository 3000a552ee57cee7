"""Whole jobs on the tiny model, each run once a session and looked at by many tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rl.config.load import load_config
from rl.config.schema import Config
from rl.config.validate import validate, validate_paths
from rl.episode.jsonl import read_episodes, read_rows
from rl.episode.records import Episode
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


def run(folder: Path, arguments: Sequence[str]) -> FinishedJob:
    """Run a job in this process on the session's Ray; the actors are real processes."""
    from actors.trainer.job import prepare_job, run_job

    config = load_config(list(arguments))
    validate(config)
    validate_paths(config)
    assert run_job(prepare_job(config)) == 0
    return FinishedJob(folder, config)


def start(folder: Path, *arguments: str, wandb: str = "disabled") -> FinishedJob:
    return run(
        folder,
        [
            "model=tiny",
            "optimizer.schedule=constant",
            f"run.wandb_mode={wandb}",
            f"run.dir={folder}",
            "judge.backend=cues",
            f"tasks.files=[{folder.parent / 'words.jsonl'}]",
            *arguments,
        ],
    )


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
def interrupted(local_ray: None, runs_dir: Path) -> FinishedJob:
    """The same run, ended after its first step."""
    return start(runs_dir / "part", "train.steps=1", "grpo.updates_per_batch=2")


@pytest.fixture(scope="session")
def asynchronous(local_ray: None, runs_dir: Path) -> FinishedJob:
    """Three overlapped steps, with wandb's offline log."""
    return start(runs_dir / "async", "train.steps=3", "train.staleness=1", wandb="offline")


@pytest.fixture(scope="session")
def still(local_ray: None, runs_dir: Path) -> FinishedJob:
    """Three steps at learning rate 0."""
    return start(runs_dir / "still", "train.steps=3", "optimizer.learning_rate=0")
