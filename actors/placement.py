"""One placement group for all actors of a run, made up front or refused with the reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from actors.cluster import ClusterError
from rl.config.schema import Config


@dataclass(frozen=True)
class Placement:
    """The run's placement group and which of its bundles belong to which role.

    A role that needs neither a CPU nor a GPU of its own has no bundle and may sit in any. Without
    any bundle there is no group, and Ray places every actor where it likes.
    """

    group: PlacementGroup | None
    bundles: Mapping[str, tuple[int, ...]]

    def options(self, role: str, index: int, need: Mapping[str, float]) -> dict[str, Any]:
        """Return the Ray options that put the ``index``-th actor of ``role`` in its place."""
        options: dict[str, Any] = {
            "num_cpus": need.get("CPU", 0.0),
            "num_gpus": need.get("GPU", 0.0),
        }
        if self.group is not None:
            bundles = self.bundles[role]
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                self.group, placement_group_bundle_index=bundles[index] if bundles else -1
            )
        return options

    def remove(self) -> None:
        """Give the resources back."""
        if self.group is not None:
            remove_placement_group(self.group)


def needs(config: Config) -> dict[str, tuple[int, dict[str, float]]]:
    """Return how many actors each role has, and what one of them needs."""
    rollout, learner = config.rollout, config.learner
    return {
        "learner": (learner.world_size, _resources(learner.cpus, learner.gpus)),
        "rollout": (rollout.workers, _resources(rollout.cpus, rollout.gpus)),
        "judge": (config.judge.workers, _resources(config.judge.cpus, config.judge.gpus)),
        "simulator": (config.simulator.workers, _resources(config.simulator.cpus, 0.0)),
    }


def place(config: Config) -> Placement:
    """Reserve what the run needs.

    Raises:
        ClusterError: the cluster is too small, or too busy until the deadline; the message says
            what is wanted and what there is.
    """
    bundles: list[dict[str, float]] = []
    roles: dict[str, tuple[int, ...]] = {}
    for role, (count, need) in needs(config).items():
        first = len(bundles)
        if need:
            bundles.extend([need] * count)
        roles[role] = tuple(range(first, len(bundles)))
    wanted = _total(bundles)
    total = ray.cluster_resources()
    if any(total.get(name, 0.0) < amount for name, amount in wanted.items()):
        raise ClusterError(
            f"the cluster is too small: wanted {_words(wanted)}, it has {_words(total, wanted)}; "
            "lower rollout.workers or learner.world_size, or add nodes"
        )
    if not bundles:
        return Placement(None, roles)
    _check_nodes(config)
    group = placement_group(bundles, strategy=config.cluster.placement_strategy)
    if not group.wait(config.cluster.placement_deadline_s):
        available = ray.available_resources()
        remove_placement_group(group)
        raise ClusterError(
            f"no room within cluster.placement_deadline_s={config.cluster.placement_deadline_s}: "
            f"wanted {_words(wanted)} as {len(bundles)} bundles "
            f"(cluster.placement_strategy={config.cluster.placement_strategy}), "
            f"available {_words(available, wanted)} of {_words(total, wanted)}"
        )
    return Placement(group, roles)


def _check_nodes(config: Config) -> None:
    """Refuse an actor that no node is large enough for: no wait would help."""
    nodes: list[Mapping[str, float]] = [n["Resources"] for n in ray.nodes() if n["Alive"]]
    for role, (_, need) in needs(config).items():
        if not any(all(node.get(name, 0.0) >= need[name] for name in need) for node in nodes):
            held = sorted({_words(node, need) for node in nodes})
            raise ClusterError(
                f"no node is large enough: one {role} actor wanted {_words(need)}, "
                f"the nodes have {'; '.join(held)}"
            )


def _resources(cpus: float, gpus: float) -> dict[str, float]:
    return {name: amount for name, amount in (("CPU", cpus), ("GPU", gpus)) if amount > 0}


def _total(bundles: list[dict[str, float]]) -> dict[str, float]:
    return {
        name: sum(bundle.get(name, 0.0) for bundle in bundles)
        for name in sorted({name for bundle in bundles for name in bundle})
    }


def _words(amounts: Mapping[str, float], names: Mapping[str, float] | None = None) -> str:
    return ", ".join(f"{amounts.get(name, 0.0):g} {name}" for name in (names or amounts))
