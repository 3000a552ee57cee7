"""Placement on a local Ray of known size: bundles, and refusals that say wanted and available."""

import time

import pytest

from actors.cluster import ClusterError
from actors.placement import Placement, needs, place
from rl.config.load import load_config


def config(*arguments):
    return load_config(["model=tiny", *arguments])


def test_needs_are_those_of_one_actor():
    made = needs(
        config(
            "learner.world_size=3",
            "learner.cpus=2",
            "learner.gpus=1",
            "rollout.workers=4",
            "rollout.cpus=0.5",
            "rollout.gpus=2",
            "rollout.tensor_parallel=2",
            "judge.workers=2",
            "judge.cpus=0",
            "judge.gpus=0.25",
            "simulator.workers=1",
            "simulator.cpus=0",
        )
    )
    assert made == {
        "learner": (3, {"CPU": 2.0, "GPU": 1.0}),
        "rollout": (4, {"CPU": 0.5, "GPU": 2.0}),  # the engine's two GPUs, not two times two
        "judge": (2, {"GPU": 0.25}),
        "simulator": (1, {}),
    }


@pytest.fixture
def cpus(local_ray):
    """How many CPUs the local Ray has."""
    import ray

    return int(ray.cluster_resources()["CPU"])


def test_every_actor_has_a_bundle_of_its_own(cpus):
    from ray.util.placement_group import placement_group_table

    placement = place(
        config(
            "learner.cpus=0.5",
            "rollout.cpus=0.25",
            "rollout.workers=2",
            "judge.cpus=0.25",
            "simulator.cpus=0",
        )
    )
    try:
        assert placement.bundles == {
            "learner": (0,),
            "rollout": (1, 2),
            "judge": (3,),
            "simulator": (),
        }
        table = placement_group_table(placement.group)
        assert table["state"] == "CREATED"
        assert table["bundles"] == {
            0: {"CPU": 0.5},
            1: {"CPU": 0.25},
            2: {"CPU": 0.25},
            3: {"CPU": 0.25},
        }
        options = placement.options("rollout", 1, {"CPU": 0.25})
        assert (options["num_cpus"], options["num_gpus"]) == (0.25, 0.0)
        strategy = options["scheduling_strategy"]
        assert strategy.placement_group == placement.group
        assert strategy.placement_group_bundle_index == 2
        free = placement.options("simulator", 0, {})["scheduling_strategy"]
        assert free.placement_group_bundle_index == -1
    finally:
        placement.remove()


def test_an_actor_runs_in_its_bundle(cpus):
    import ray

    placement = place(config("learner.cpus=0.25", "rollout.cpus=0.25"))

    class Where:
        def group(self):
            return ray.util.get_current_placement_group()

    try:
        options = placement.options("rollout", 0, {"CPU": 0.25})
        actor = ray.remote(Where).options(**options).remote()
        assert ray.get(actor.group.remote(), timeout=60).id == placement.group.id
        ray.kill(actor)
    finally:
        placement.remove()


def test_nothing_to_reserve_needs_no_group(cpus):
    placement = place(
        config("learner.cpus=0", "rollout.cpus=0", "judge.cpus=0", "simulator.cpus=0")
    )
    assert placement == Placement(None, dict.fromkeys(placement.bundles, ()))
    assert placement.options("learner", 0, {}) == {"num_cpus": 0.0, "num_gpus": 0.0}
    placement.remove()


def refused(*arguments):
    start = time.monotonic()
    with pytest.raises(ClusterError) as caught:
        place(config(*arguments))
    text = str(caught.value)
    assert "\n" not in text
    return text, time.monotonic() - start


def test_a_cluster_that_is_too_small_is_refused_at_once(cpus):
    text, seconds = refused(f"learner.cpus={cpus}", "rollout.cpus=1", "judge.cpus=0")
    assert text.startswith(
        f"the cluster is too small: wanted {cpus + 1} CPU, it has {cpus} CPU; lower rollout.workers"
    )
    assert seconds < 10


def test_missing_gpus_are_named(cpus):
    text, _ = refused("learner.gpus=1", "rollout.gpus=1", "rollout.workers=2")
    assert "wanted 3 CPU, 3 GPU, it has" in text
    assert "0 GPU" in text


def test_an_actor_larger_than_any_node_is_refused_at_once(cpus, monkeypatch):
    """Two nodes of one GPU have two GPUs, and no room for an engine that needs two."""
    import ray

    node = {"Alive": True, "Resources": {"CPU": 8.0, "GPU": 1.0}}
    gone = {"Alive": False, "Resources": {"CPU": 8.0, "GPU": 8.0}}
    monkeypatch.setattr(ray, "nodes", lambda: [node, node, gone])
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 16.0, "GPU": 2.0})
    text, seconds = refused("rollout.gpus=2", "rollout.tensor_parallel=2")
    assert text == (
        "no node is large enough: one rollout actor wanted 1 CPU, 2 GPU, "
        "the nodes have 8 CPU, 1 GPU"
    )
    assert seconds < 10


def test_pitfall_26_a_busy_cluster_is_given_up_with_what_there_is(cpus):
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    free = int(ray.available_resources()["CPU"])
    busy = placement_group([{"CPU": free}])
    assert busy.wait(30)
    try:
        text, seconds = refused(
            "learner.cpus=1", "rollout.cpus=1", "judge.cpus=0", "cluster.placement_deadline_s=1.5"
        )
        assert text.startswith(
            "no room within cluster.placement_deadline_s=1.5: wanted 2 CPU as 2 bundles "
            "(cluster.placement_strategy=PACK), available "
        )
        assert text.endswith(f" of {cpus} CPU")
        assert 1.0 < seconds < 20
    finally:
        remove_placement_group(busy)
    # Nothing stays behind: what was refused holds no reservation, and there is room again.
    placement = place(config("learner.cpus=1", "rollout.cpus=0", "judge.cpus=0"))
    placement.remove()
