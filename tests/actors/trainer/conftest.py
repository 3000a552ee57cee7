"""Hypothesis without deadlines (a shared machine's clock says nothing), and the scripted actors."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from tests.actors.trainer.doubles import ScriptedActor

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")


@pytest.fixture(scope="session")
def scripted_pair(local_ray: None) -> tuple[Any, Any]:
    import ray

    kind = ray.remote(ScriptedActor).options(num_cpus=0, max_concurrency=100)
    return kind.remote(), kind.remote()


@pytest.fixture
def worker(scripted_pair: tuple[Any, Any]) -> Any:
    import ray

    ray.get(scripted_pair[0].reset.remote())
    return scripted_pair[0]


@pytest.fixture
def simulator(scripted_pair: tuple[Any, Any], worker: Any) -> Callable[..., Any]:
    """Return the simulator after it was told its script: {order: what happens}."""
    import ray

    def scripted(script: dict[int, str] | None = None) -> Any:
        ray.get(scripted_pair[1].reset.remote(script))
        ray.get(scripted_pair[1].set_worker.remote(worker))
        return scripted_pair[1]

    return scripted
