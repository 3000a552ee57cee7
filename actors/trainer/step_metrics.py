"""One step as a row of ``metrics.jsonl``."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from actors.learner.group import TrainReport
from actors.trainer.gate import Cut
from actors.trainer.publish import Published
from rl.episode.records import Episode
from rl.grpo.batch import TrainingBatch
from rl.grpo.batch_diagnostics import add_failed

_OWN_COLUMNS = {"mismatch_kl", "mismatch_kl_current", "loss"}


def step_row(
    *,
    step: int,
    steps: int,
    published: Published,
    cut: Cut,
    batch: TrainingBatch,
    report: TrainReport | None,
    seconds: Mapping[str, float],
    failures: Mapping[str, int],
    failed: Sequence[Episode] = (),
    rollout_counters: Mapping[str, int],
    kv_age: int,
) -> dict[str, Any]:
    """Return the row; what could not be measured is ``None``, never 0.

    ``failed`` are the episodes that failed since the last row: they are counted, their groups,
    tokens and counters too, and they are in no mean. ``kv_age`` is how many steps old the oldest
    adapter is whose cached blocks can be read. ``seconds["checkpoint"]`` is that of the checkpoint
    before this step: a step's own comes after its row. Without ``report`` no group was informative:
    the batch was skipped and the policy is unchanged.
    """
    diagnostics = asdict(add_failed(batch.diagnostics, failed))
    played = (*cut.episodes, *failed)
    metrics = dict(report.metrics) if report else {}
    return {
        "step": step,
        "steps": steps,
        "policy_version": published.files.version,
        "loss": metrics.get("loss"),
        "reward_mean": diagnostics["reward_mean"],
        "reward_parts": diagnostics.pop("reward_parts"),
        "discover": mean_metric(cut.episodes, "discover"),
        "satisfy": mean_metric(cut.episodes, "satisfy"),
        **diagnostics,
        "batch_skipped": report is None,
        "staleness": {str(age): count for age, count in sorted(Counter(cut.staleness).items())},
        "mismatch_kl": metrics.get("mismatch_kl"),
        "mismatch_kl_current": metrics.get("mismatch_kl_current"),
        "grad_norm": report.grad_norm if report else None,
        "learning_rate": report.learning_rate if report else None,
        "policy": {k: v for k, v in metrics.items() if k not in _OWN_COLUMNS},
        "seconds": dict(seconds),
        "episode_ends": dict(Counter(str(episode.end) for episode in played)),
        "failures": dict(failures),
        "counters": add_counters(played),
        "rollout": dict(rollout_counters),
        "probe_difference": published.probe_difference,
        "probe_moved": published.probe_moved,
        "probe_conclusive": published.probe_conclusive,
        "kv_age": kv_age,
    }


def mean_metric(episodes: Sequence[Episode], name: str) -> float | None:
    """Return the mean of a metric over the episodes that have it."""
    values = [episode.metrics[name] for episode in episodes if name in episode.metrics]
    return sum(values) / len(values) if values else None


def add_counters(episodes: Sequence[Episode]) -> dict[str, int]:
    """Add up the episodes' counters."""
    total: Counter[str] = Counter()
    for episode in episodes:
        total.update(episode.counters)
    return dict(sorted(total.items()))
