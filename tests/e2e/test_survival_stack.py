"""An overlapped job whose driver is killed, and whose simulator and judge die after it resumed.

It runs at learning rate 0, so that it also shows that nothing drifts over publishes and deaths.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import CHECKOUT
from tests.e2e.conftest import FinishedJob, arguments, difference, run, weights

pytestmark = pytest.mark.stack

STEPS = 5


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
        *arguments(folder),
        "train.staleness=1",
        "optimizer.learning_rate=0",
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


@dataclass(frozen=True)
class Survivor:
    """The resumed job, and how many steps it had made when its driver was killed."""

    job: FinishedJob
    steps_before: int


@pytest.fixture(scope="module")
def survivor(killed: Path) -> Survivor:
    """The killed job, resumed; its only simulator and judge die in the middle of its dialogues."""
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
        status = killed / "status.json"
        wait_for(
            lambda: json.loads(status.read_text())["phase"] == "rollout",
            60,
            lambda: not finished.is_set(),
        )
        time.sleep(0.3)  # in the middle of its first dialogues
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


def test_pitfall_21_a_killed_run_resumes_and_survives_its_simulator_and_judge(
    survivor: Survivor,
) -> None:
    job = survivor.job
    assert survivor.steps_before < STEPS
    assert [row["step"] for row in job.metrics] == list(range(1, STEPS + 1))
    assert job.metrics[-1]["failures"]["simulator_died"] >= 1
    # Every episode is trained in one step, or counted as failed: no id is lost or there twice.
    progress = json.loads((job.checkpoints[-1] / "progress.json").read_text())
    assert len(progress["trained"]) == 2 * STEPS
    settled = sorted(progress["trained"] + progress["failed"])
    assert settled == list(range(len(settled)))
    assert sorted(episode.id.order for episode in job.episodes) == settled


def test_pitfall_09_at_learning_rate_zero_nothing_drifts(survivor: Survivor) -> None:
    """Every token is as likely for the learner as it was when sampled, however stale it is."""
    job = survivor.job
    first, last = job.checkpoints[-2:]
    assert difference(weights(first), weights(last)) == 0.0
    trained = [row for row in job.metrics if not row["batch_skipped"]]
    assert trained
    assert any("1" in row["staleness"] for row in trained)
    assert all(row["mismatch_kl"] < 1e-8 for row in trained)
    assert all(row["probe_difference"] < 1e-4 for row in job.metrics)


def test_the_saved_adapter_gives_the_logprobs_that_were_sampled(
    survivor: Survivor, tiny_dir: Path
) -> None:
    """Plain peft and transformers load the checkpoint's adapter (at rate 0 it is the sampler's)."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(tiny_dir, dtype=torch.float32)
    model = PeftModel.from_pretrained(base, survivor.job.checkpoints[-1] / "adapter")
    episode = next(e for e in survivor.job.episodes if e.end == "turn_limit")
    for span in list(episode.tokens.sampled())[:4]:
        prefix = episode.tokens.prefix_ids(span.parent)
        with torch.no_grad():
            logits = model(torch.tensor([prefix + span.ids])).logits[0].log_softmax(-1)
        rows = torch.arange(len(prefix) - 1, len(prefix) + len(span.ids) - 1)
        expected = logits[rows, torch.tensor(span.ids)]
        assert float((torch.tensor(span.logprobs) - expected).abs().max()) < 1e-3
