"""One overlapped job with two of every actor: killed, resumed, and hit by deaths after that."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rl.policy.version import AdapterVersion
from tests.conftest import CHECKOUT
from tests.e2e.conftest import FinishedJob, arguments, difference, run, weights

pytestmark = pytest.mark.stack

STEPS = 5
IN_TWOS = (
    "train.staleness=1",
    "learner.world_size=2",
    "learner.threads=1",
    "rollout.workers=2",
    "rollout.threads=1",
    "simulator.workers=2",
    "judge.workers=2",
)


@dataclass(frozen=True)
class Survivor:
    """The finished job, and how many steps it had made when its driver was killed."""

    job: FinishedJob
    steps_before: int

    @property
    def progress(self) -> dict[str, Any]:
        return json.loads((self.job.checkpoints[-1] / "progress.json").read_text())


def wait_for(what: Callable[[], bool], deadline_s: float, goes_on: Callable[[], bool]) -> None:
    give_up = time.monotonic() + deadline_s
    while not what():
        assert goes_on(), "it ended before"
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.05)


def steps(folder: Path) -> int:
    file = folder / "metrics.jsonl"
    return len(file.read_text().splitlines()) if file.is_file() else 0


@pytest.fixture(scope="module")
def killed(local_ray: None, runs_dir: Path) -> Path:
    """The folder of a job whose driver was killed while it worked on its third step."""
    import ray

    folder = runs_dir / "killed"
    command = [
        sys.executable,
        "launch/grpo.py",
        *arguments(folder, wandb="offline"),
        *IN_TWOS,
        f"train.steps={STEPS}",
        f"cluster.address={ray.get_runtime_context().gcs_address}",
    ]
    with (runs_dir / "killed.log").open("w") as log:
        driver = subprocess.Popen(command, cwd=CHECKOUT, stdout=log, stderr=log, env=os.environ)
    try:
        wait_for(lambda: steps(folder) >= 2, 240, lambda: driver.poll() is None)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait(timeout=10)
    assert not (folder / "summary.json").exists()
    return folder


@pytest.fixture(scope="module")
def survivor(killed: Path) -> Survivor:
    """The killed job, resumed; a simulator and a judge die in the middle of its dialogues."""
    import ray

    import actors.trainer.job as job

    crews: list[Any] = []
    real = job.start_crew

    def start_crew(*given: Any) -> Any:
        crews.append(real(*given))
        return crews[-1]

    before = steps(killed)
    finished = threading.Event()

    def kill() -> None:
        wait_for(lambda: bool(crews), 240, lambda: not finished.is_set())
        # When a step is recorded the next dialogues have been admitted, and most are running.
        wait_for(lambda: steps(killed) > before, 120, lambda: not finished.is_set())
        ray.kill(crews[0].judges[0], no_restart=False)
        ray.kill(crews[0].simulators[0], no_restart=False)

    killer = threading.Thread(target=kill)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "start_crew", start_crew)
        killer.start()
        try:
            return Survivor(run(killed, [f"run.resume={killed}"]), before)
        finally:
            finished.set()
            killer.join()


def test_pitfall_21_a_killed_run_resumes_and_survives_a_simulator_and_a_judge(
    survivor: Survivor,
) -> None:
    assert survivor.steps_before < STEPS
    assert [row["step"] for row in survivor.job.metrics] == list(range(1, STEPS + 1))
    assert survivor.job.metrics[-1]["failures"]["simulator_died"] >= 1


def test_pitfall_21_every_episode_is_trained_once_or_counted_as_failed(survivor: Survivor) -> None:
    trained, failed = survivor.progress["trained"], survivor.progress["failed"]
    assert len(trained) == 2 * STEPS
    settled = sorted(trained + failed)
    assert settled == list(range(len(settled)))
    assert sorted(episode.id.order for episode in survivor.job.episodes) == settled


def test_it_overlaps_within_its_bound(survivor: Survivor) -> None:
    """The histogram holds the age of the oldest version of each episode's tokens."""
    trained = [e for e in survivor.job.episodes if e.end == "turn_limit"]
    all_ages = Counter()
    for index, row in enumerate(survivor.job.metrics):
        batch = trained[2 * index : 2 * index + 2]
        ages = Counter(
            row["step"] - 1 - min(AdapterVersion.parse(name).step for name in e.versions)
            for e in batch
        )
        assert {int(age): count for age, count in row["staleness"].items()} == ages
        all_ages += ages
    assert set(all_ages) <= {0, 1}
    assert all_ages[1] > 0, "nothing overlapped"
    assert all_ages.total() == len(trained) == 2 * STEPS


def test_two_ranks_and_two_engines_agree(survivor: Survivor) -> None:
    job = survivor.job
    assert all(row["probe_difference"] < 1e-4 for row in job.metrics)
    assert survivor.progress["world_size"] == 2
    assert any("rank-1" in name for name in survivor.progress["files"])
    fresh = [row["mismatch_kl_current"] for row in job.metrics]
    assert fresh[0] is not None, "the first batch is written by the version that is trained"
    assert all(value < 1e-6 for value in fresh if value is not None)


def test_the_policy_moves_and_its_versions_are_never_reused(survivor: Survivor) -> None:
    """A restart opens a lineage of its own."""
    first, last = survivor.job.checkpoints[-2:]
    assert difference(weights(first), weights(last)) > 0
    versions = [AdapterVersion.parse(row["policy_version"]) for row in survivor.job.metrics]
    assert [version.step for version in versions] == list(range(1, STEPS + 1))
    assert {version.lineage for version in versions} == {0, 1}


def test_pitfall_27_wandb_logs_offline_into_the_run_folder(survivor: Survivor) -> None:
    assert list((survivor.job.folder / "wandb").glob("offline-run-*/*.wandb"))
