"""What a training batch was made of: counts of groups, rewards, constraint and tokens."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rl.episode.records import Candidate, Group
from rl.grpo.advantages import GroupStatus
from rl.grpo.calibration import ConstrainedGroup


@dataclass(frozen=True)
class ScoredGroup:
    """A group, which of its candidates could be scored, and what the scoring gave."""

    group: Group
    usable: tuple[bool, ...]
    scores: ConstrainedGroup


@dataclass(frozen=True)
class BatchDiagnostics:
    """Counts and means of one batch; a mean over nothing is ``None``.

    ``groups_failed`` are groups with too few scored candidates. ``reward_mean`` and
    ``reward_parts`` are means over usable candidates, before calibration; a part is averaged over
    the candidates that have it. ``mean_shift`` is the calibration's mean Δ over mixed groups.
    ``generated_tokens`` counts every sampled token, of failed episodes too.
    """

    episodes_failed: int
    groups_informative: int
    groups_uninformative: int
    groups_failed: int
    groups_all_violating_skipped: int
    candidates_usable: int
    candidates_unusable: int
    rewards_not_finite: int
    reward_mean: float | None
    reward_parts: Mapping[str, float]
    groups_mixed: int
    groups_all_violating: int
    mean_shift: float | None
    violators: int
    compliers: int
    positive_advantage_violators: int
    negative_advantage_compliers: int
    generated_tokens: int
    trained_tokens: int


def diagnose(
    groups: Sequence[ScoredGroup],
    *,
    episodes_failed: int,
    generated_tokens: int,
    trained_tokens: int,
) -> BatchDiagnostics:
    """Count and average over ``groups``, those of failed episodes left out."""
    statuses = [scored.scores.outcome.status for scored in groups]
    candidates = [candidate for scored in groups for candidate in scored.group.candidates]
    usable = [
        candidate
        for scored in groups
        for candidate, ok in zip(scored.group.candidates, scored.usable, strict=True)
        if ok
    ]
    rewards = [scored.scores.rewards for scored in groups]
    return BatchDiagnostics(
        episodes_failed=episodes_failed,
        groups_informative=statuses.count(GroupStatus.INFORMATIVE),
        groups_uninformative=statuses.count(GroupStatus.UNINFORMATIVE),
        groups_failed=statuses.count(GroupStatus.TOO_SMALL),
        groups_all_violating_skipped=statuses.count(GroupStatus.ALL_VIOLATING_SKIPPED),
        candidates_usable=len(usable),
        candidates_unusable=len(candidates) - len(usable),
        rewards_not_finite=sum(
            c.reward is not None and not math.isfinite(c.reward) for c in candidates
        ),
        reward_mean=_mean(c.reward for c in usable if c.reward is not None),
        reward_parts=_part_means(usable),
        groups_mixed=sum(reward.mixed for reward in rewards),
        groups_all_violating=sum(reward.all_violating for reward in rewards),
        mean_shift=_mean(reward.shift for reward in rewards if reward.mixed),
        violators=sum(reward.violators for reward in rewards),
        compliers=sum(reward.compliers for reward in rewards),
        positive_advantage_violators=sum(s.scores.positive_violators for s in groups),
        negative_advantage_compliers=sum(s.scores.negative_compliers for s in groups),
        generated_tokens=generated_tokens,
        trained_tokens=trained_tokens,
    )


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else None


def _part_means(candidates: Sequence[Candidate]) -> dict[str, float]:
    """Return the mean of each reward part, by name, over the candidates that have it."""
    parts: dict[str, list[float]] = {}
    for candidate in candidates:
        for name, value in candidate.reward_parts.items():
            parts.setdefault(name, []).append(value)
    return {name: math.fsum(values) / len(values) for name, values in sorted(parts.items())}
