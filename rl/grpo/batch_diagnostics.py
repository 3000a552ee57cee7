"""What a training batch was made of: counts of groups, rewards, constraint and tokens."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rl.episode.records import Candidate, Episode, Group
from rl.grpo.advantages import GroupStatus
from rl.grpo.calibration import ConstrainedGroup

_LENGTH_PENALTY = "length_penalty"  # its name among a candidate's reward parts


@dataclass(frozen=True)
class ScoredGroup:
    """A group, which of its candidates could be scored, and what the scoring gave."""

    group: Group
    usable: tuple[bool, ...]
    scores: ConstrainedGroup


@dataclass(frozen=True)
class BatchDiagnostics:
    """Counts and means of one batch; a mean over nothing is ``None``.

    Every group is in exactly one of ``groups_informative``, ``groups_uninformative``,
    ``groups_failed`` and ``groups_all_violating_skipped``. Failed are the groups with fewer usable
    candidates than ``grpo.min_group_size`` (none at all included) and all groups of failed
    episodes, scored or not. ``groups_informative_by_length_only`` are those informative groups
    whose usable candidates differ in no reward part but the length penalty.

    ``reward_mean`` and ``reward_parts`` are means over usable candidates, before calibration; a
    part is averaged over the candidates that have it. ``mean_shift`` is the calibration's mean Δ
    over mixed groups. ``generated_tokens`` counts every sampled token. Failed episodes enter
    ``episodes_failed``, ``groups_failed`` and ``generated_tokens``, and no other field.
    """

    episodes_failed: int
    groups_informative: int
    groups_informative_by_length_only: int
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
    generated_tokens: int,
    trained_tokens: int,
) -> BatchDiagnostics:
    """Count and average over ``groups`` of episodes that did not fail."""
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
        episodes_failed=0,
        groups_informative=statuses.count(GroupStatus.INFORMATIVE),
        groups_informative_by_length_only=sum(_differs_by_length_only(s) for s in groups),
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


def add_failed(diagnostics: BatchDiagnostics, failed: Sequence[Episode]) -> BatchDiagnostics:
    """Return ``diagnostics`` with failed episodes, their groups and their tokens counted, too."""
    return replace(
        diagnostics,
        episodes_failed=diagnostics.episodes_failed + len(failed),
        groups_failed=diagnostics.groups_failed + sum(len(episode.groups) for episode in failed),
        generated_tokens=diagnostics.generated_tokens + sampled_tokens(failed),
    )


def sampled_tokens(episodes: Sequence[Episode]) -> int:
    """Return how many tokens the trained seat sampled, in committed replies and in others."""
    return sum(len(span.ids) for episode in episodes for span in episode.tokens.sampled())


def _differs_by_length_only(scored: ScoredGroup) -> bool:
    """Whether an informative group's signal is the length penalty and nothing else."""
    if scored.scores.outcome.status is not GroupStatus.INFORMATIVE or scored.scores.rewards.mixed:
        return False
    pairs = zip(scored.group.candidates, scored.usable, strict=True)
    parts = [dict(candidate.reward_parts) for candidate, ok in pairs if ok]
    penalties = {part.pop(_LENGTH_PENALTY, None) for part in parts}
    return len(penalties) > 1 and all(part == parts[0] for part in parts)


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
