"""Real learner processes: one alone, and a pair on loopback, each runs all of its scenarios.

Importing DeepSpeed and verl costs more than a scenario, so each process is started once and the
tests look at what it wrote.
"""

import os
import pickle
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # learner_*.py, which the worker process imports as well

DEADLINE_S = 400.0  # all scenarios of one job; about 40 s on two free cores


@dataclass(frozen=True)
class World:
    """The results of one job: rank, then scenario, then call."""

    ranks: Sequence[Mapping[str, Mapping[str, Any]]]

    def __getitem__(self, scenario: str) -> Mapping[str, Any]:
        """Return rank 0's results."""
        return self.ranks[0][scenario]

    def reports(self, scenario: str, call: str = "train") -> list[list[Any]]:
        """Return every rank's update reports, as the group gets them."""
        return [results[scenario][call]["reports"] for results in self.ranks]


@pytest.fixture(scope="session")
def start_adapter_dir(tiny_dir, tmp_path_factory) -> Path:
    """An adapter that plain peft made and saved; both of its halves are random."""
    import torch
    from learner_scenarios import ALPHA, MODULES, RANK
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    folder = tmp_path_factory.mktemp("start-adapter")
    lora = LoraConfig(
        r=RANK,
        lora_alpha=ALPHA,
        target_modules=list(MODULES),
        task_type="CAUSAL_LM",
        init_lora_weights=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        base = AutoModelForCausalLM.from_pretrained(tiny_dir, dtype=torch.float32)
        policy = get_peft_model(base, lora)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                parameter *= 0.3  # near the base, so that no token's KL reaches verl's limit of 10
    policy.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def reference(tiny_dir, start_adapter_dir):
    """Makes a fresh reference policy with the starting adapter, in float64."""
    from learner_reference import ReferencePolicy

    return lambda: ReferencePolicy(tiny_dir, start_adapter_dir)


@pytest.fixture(scope="session")
def policy_samples(reference):
    """A batch whose sampler differs from the policy, so that importance weights matter."""
    from learner_batch import random_samples, sampled_by_another

    policy, draw = reference(), random.Random(1)
    return tuple(
        sampled_by_another(sample, policy.logprobs(sample).tolist(), draw)
        for sample in random_samples(6)
    )


@pytest.fixture(scope="session")
def setting(tiny_dir, start_adapter_dir, policy_samples):
    from learner_scenarios import Setting

    from rl.policy.adapter import read_adapter

    files = read_adapter(start_adapter_dir, "assistant@0.0")
    return Setting(str(tiny_dir), files, policy_samples, world_size=1)


@dataclass(frozen=True)
class Job:
    """Learner processes at work on their scenarios."""

    processes: Sequence[subprocess.Popen[bytes]]
    targets: Sequence[Path]
    logs: Sequence[Path]
    end: float

    def world(self) -> World:
        """Wait for the processes and return what they wrote."""
        try:
            codes = [p.wait(max(0.1, self.end - time.monotonic())) for p in self.processes]
        except subprocess.TimeoutExpired:
            codes = [process.poll() for process in self.processes]
        if any(code != 0 for code in codes):
            tails = "\n".join(log.read_text()[-3000:] for log in self.logs)
            pytest.fail(f"learner processes ended with {codes}:\n{tails}")
        return World([pickle.loads(target.read_bytes()) for target in self.targets])

    def stop(self) -> None:
        """End what still runs."""
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def jobs(setting, tmp_path_factory) -> Iterator[Mapping[str, Job]]:
    """Both jobs at once: together they keep two cores busy, one after the other they do not."""
    from learner_scenarios import one_rank, two_ranks

    started = {}
    try:
        started["alone"] = start(one_rank(setting), 1, tmp_path_factory.mktemp("alone"))
        both = replace(setting, world_size=2)
        started["pair"] = start(two_ranks(both), 2, tmp_path_factory.mktemp("pair"))
        yield started
    finally:
        for job in started.values():
            job.stop()


@pytest.fixture(scope="session")
def alone(jobs) -> World:
    """What one learner process showed."""
    return jobs["alone"].world()


@pytest.fixture(scope="session")
def pair(jobs) -> World:
    """What two learner processes showed."""
    return jobs["pair"].world()


def start(scenarios: Sequence[Any], world_size: int, folder: Path) -> Job:
    """Start ``scenarios`` on ``world_size`` processes that join on loopback."""
    from actors.learner.distributed import free_port

    job = folder / "job.pkl"
    job.write_bytes(pickle.dumps(scenarios))
    port = str(free_port("127.0.0.1"))
    processes, logs, targets = [], [], []
    for rank in range(world_size):
        targets.append(folder / f"results-{rank}.pkl")
        logs.append(folder / f"rank-{rank}.log")
        command = [sys.executable, str(HERE / "learner_worker.py"), str(job), str(targets[-1])]
        with logs[-1].open("w") as log:
            processes.append(
                subprocess.Popen(
                    [*command, str(rank), str(world_size), port],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
                )
            )
    return Job(processes, targets, logs, time.monotonic() + DEADLINE_S)
