"""One local Ray and one crew of real actors on the tiny model, shared by all stack tests."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rl.config.load import load_config
from rl.config.schema import Config
from rl.config.validate import validate, validate_paths
from rl.policy.version import AdapterVersion

# Logical CPUs: the shared crew and one job at a time must fit beside each other.
RAY_CPUS = 6
_steps = itertools.count(1)


def fresh_version() -> AdapterVersion:
    """A version newer than all before it: the shared worker's versions are immutable."""
    return AdapterVersion("assistant", 0, next(_steps))


def tiny_config(*arguments: str, schedule: str = "constant") -> Config:
    """A validated configuration on the tiny model, quiet."""
    config = load_config(
        ["model=tiny", f"optimizer.schedule={schedule}", "run.wandb_mode=disabled", *arguments]
    )
    validate(config)
    validate_paths(config)
    return config


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    import ray

    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    ray.init(
        address="local",
        num_cpus=RAY_CPUS,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def crew_config() -> Config:
    # A random model's logits hardly differ; a low temperature lets a small change show.
    # The tests train at the schedule's first update, where a cosine has its full rate.
    return tiny_config(
        "optimizer.learning_rate=0.01", "assistant.temperature=0.1", schedule="cosine"
    )


@pytest.fixture(scope="session")
def crew(local_ray: None, crew_config: Config, tiny_dir: Path) -> Iterator[object]:
    """A started crew: one rollout worker, one learner rank, a judge and a simulator."""
    from actors.placement import place
    from actors.trainer.crew import start_crew
    from actors.trainer.job import prepare_job

    job = prepare_job(crew_config)
    placement = place(crew_config)
    crew = start_crew(crew_config, placement, job.model, job.tasks, None)
    yield crew
    crew.end()
    placement.remove()
