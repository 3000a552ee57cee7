"""Group advantages: each candidate's reward against the mean and spread of its own group."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

# Far beyond any reward that means something; squares of larger ones overflow.
LARGEST_REWARD = 1e100


class GroupStatus(StrEnum):
    """Whether a group teaches anything, and if not, why."""

    INFORMATIVE = "informative"
    UNINFORMATIVE = "uninformative"  # all rewards equal: every advantage is 0
    TOO_SMALL = "too_small"  # fewer scored candidates than the minimum
    ALL_VIOLATING_SKIPPED = "all_violating_skipped"  # no candidate meets the constraint


class Normalisation(StrEnum):
    """What the centred rewards are divided by: the group's deviation, or nothing."""

    STD = "std"
    MEAN = "mean"


@dataclass(frozen=True)
class GroupStatistics:
    """Statistics over the scored candidates; ``None`` where there are none."""

    scored: int
    mean: float | None
    deviation: float | None  # population standard deviation


@dataclass(frozen=True)
class GroupAdvantages:
    """One advantage for each candidate, in order; ``None`` for a candidate that has none.

    An unscored candidate has no advantage, and neither has any candidate of a group that is too
    small or skipped.
    """

    advantages: tuple[float | None, ...]
    status: GroupStatus
    statistics: GroupStatistics

    @property
    def weight(self) -> float:
        """1 when the group is trained on, else 0."""
        return float(self.status is GroupStatus.INFORMATIVE)


def group_advantages(
    rewards: Sequence[float | None],
    *,
    normalise: str = "std",
    epsilon: float = 1e-6,
    min_group_size: int = 2,
) -> GroupAdvantages:
    """Return A = (r − mean) / √(var + ε) with the population variance (specification §6).

    ``rewards`` holds one entry for each candidate; ``None`` marks one that could not be scored:
    it enters no statistic. ``normalise="mean"`` leaves the division out. Raises ``ValueError``
    for a reward that is not finite or larger than :data:`LARGEST_REWARD`.
    """
    kind = Normalisation(normalise)
    scored = [reward for reward in rewards if reward is not None]
    for index, reward in enumerate(rewards):
        if reward is not None and not abs(reward) <= LARGEST_REWARD:
            raise ValueError(
                f"reward {index} is {reward}; allowed: from -{LARGEST_REWARD:g} to "
                f"{LARGEST_REWARD:g}, or None"
            )
    statistics = _statistics(scored)
    if len(scored) < max(min_group_size, 1):
        return GroupAdvantages((None,) * len(rewards), GroupStatus.TOO_SMALL, statistics)
    if min(scored) == max(scored):  # the rounded mean can differ from equal rewards by an ulp
        zeros = tuple(None if reward is None else 0.0 for reward in rewards)
        return GroupAdvantages(zeros, GroupStatus.UNINFORMATIVE, statistics)
    assert statistics.mean is not None and statistics.deviation is not None
    mean = statistics.mean
    scale = math.sqrt(statistics.deviation**2 + epsilon) if kind is Normalisation.STD else 1.0
    advantages = tuple(None if reward is None else (reward - mean) / scale for reward in rewards)
    return GroupAdvantages(advantages, GroupStatus.INFORMATIVE, statistics)


def _statistics(scored: Sequence[float]) -> GroupStatistics:
    """Return the mean and population deviation; exact sums make them independent of order."""
    if not scored:
        return GroupStatistics(0, None, None)
    mean = math.fsum(scored) / len(scored)
    variance = math.fsum((reward - mean) ** 2 for reward in scored) / len(scored)
    return GroupStatistics(len(scored), mean, math.sqrt(variance))
