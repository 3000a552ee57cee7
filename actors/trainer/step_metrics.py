"""One step as a row of ``metrics.jsonl``."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from actors.learner.group import TrainReport
from actors.trainer.gate import Cut
from rl.episode.records import Episode
from rl.grpo.batch import TrainingBatch


def step_row(
    *,
    step: int,
    steps: int,
    version: str,
    cut: Cut,
    batch: TrainingBatch,
    report: TrainReport | None,
    seconds: Mapping[str, float],
    failures: Mapping[str, int],
    probe_difference: float,
    rollout_counters: Mapping[str, int],
) -> dict[str, Any]:
    """Return the row; what could not be measured is ``None``, never 0.

    Without ``report`` no group was informative: the batch was skipped and the policy is unchanged.
    """
    diagnostics = asdict(batch.diagnostics)
    metrics = dict(report.metrics) if report else {}
    return {
        "step": step,
        "steps": steps,
        "policy_version": version,
        "loss": metrics.get("loss"),
        "reward_mean": diagnostics["reward_mean"],
        "reward_parts": diagnostics.pop("reward_parts"),
        "discover": mean_metric(cut.episodes, "discover"),
        "satisfy": mean_metric(cut.episodes, "satisfy"),
        **diagnostics,
        "batch_skipped": report is None,
        "staleness": {str(age): count for age, count in sorted(Counter(cut.staleness).items())},
        "mismatch_kl": metrics.get("mismatch_kl"),
        "grad_norm": report.grad_norm if report else None,
        "learning_rate": report.learning_rate if report else None,
        "policy": {k: v for k, v in metrics.items() if k not in {"mismatch_kl", "loss"}},
        "seconds": dict(seconds),
        "episode_ends": dict(Counter(str(episode.end) for episode in cut.episodes)),
        "failures": dict(failures),
        "counters": add_counters(cut.episodes),
        "rollout": dict(rollout_counters),
        "probe_difference": probe_difference,
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
