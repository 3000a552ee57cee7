"""Constraint-first rewards: in a mixed group every compliant candidate outranks every violator."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from rl.config.schema import GrpoConfig
from rl.grpo.advantages import LARGEST_REWARD, GroupAdvantages, GroupStatus, group_advantages


class CalibrationMode(StrEnum):
    """How a boolean constraint enters the reward."""

    QUALITY_ONLY = "quality_only"  # r = q
    FIXED_BONUS = "fixed_bonus"  # r = q + λ_b · b
    CALIBRATED = "calibrated"  # r = q − (1 − b) · Δ


@dataclass(frozen=True)
class CalibratedRewards:
    """Rewards of one group, and the shift Δ ≥ 0 that was taken off its violators.

    ``compliers`` and ``violators`` count the candidates that have a reward and a known answer to
    the constraint.
    """

    rewards: tuple[float | None, ...]
    shift: float
    compliers: int
    violators: int

    @property
    def mixed(self) -> bool:
        """Whether the group holds compliers and violators."""
        return self.compliers > 0 and self.violators > 0

    @property
    def all_violating(self) -> bool:
        """Whether no candidate meets the constraint: the policy explored too little."""
        return self.violators > 0 and self.compliers == 0


@dataclass(frozen=True)
class ConstrainedGroup:
    """A group's calibrated rewards with the advantages that follow from them.

    Order is not sign: a violator below every complier can still lie above the group's mean. The
    two counts say how often that happens, after clamping where clamping is on.
    """

    rewards: CalibratedRewards
    outcome: GroupAdvantages
    positive_violators: int
    negative_compliers: int


def calibrate(
    qualities: Sequence[float | None],
    compliant: Sequence[bool | None],
    *,
    mode: str,
    margin: float = 0.1,
    bonus: float = 0.5,
) -> CalibratedRewards:
    """Turn qualities q and a constraint b into rewards (directives §4).

    In a mixed group Δ = max(0, max_{b=0} q − min_{b=1} q + m) is the smallest shift after which
    max_violating r + m ≤ min_compliant r. Groups of one kind keep r = q. ``None`` is an
    abstention, of the scorer or of the verifier: the candidate gets no reward, except that the
    mode ``quality_only`` does not ask the verifier. Raises ``ValueError`` for lengths that
    differ, a quality or bonus that is no number a reward can be, or a margin below 0.
    """
    kind = CalibrationMode(mode)
    if len(qualities) != len(compliant):
        raise ValueError(f"{len(qualities)} qualities but {len(compliant)} constraint answers")
    if not 0 <= margin <= LARGEST_REWARD:
        raise ValueError(f"margin is {margin}; allowed: from 0 to {LARGEST_REWARD:g}")
    if not abs(bonus) <= LARGEST_REWARD:
        raise ValueError(f"bonus is {bonus}; allowed: at most {LARGEST_REWARD:g} in size")
    for index, quality in enumerate(qualities):
        if quality is not None and not abs(quality) <= LARGEST_REWARD:
            raise ValueError(
                f"quality {index} is {quality}; allowed: from -{LARGEST_REWARD:g} to "
                f"{LARGEST_REWARD:g}, or None"
            )
    pairs = list(zip(qualities, compliant, strict=True))
    met = [q for q, b in pairs if q is not None and b is True]
    broken = [q for q, b in pairs if q is not None and b is False]
    shift = 0.0
    if kind is CalibrationMode.CALIBRATED and met and broken:
        shift = _shift(max(broken), min(met), margin)
    rewards = tuple(_reward(kind, q, b, shift, bonus) for q, b in pairs)
    return CalibratedRewards(rewards, shift, len(met), len(broken))


def constrained_advantages(
    qualities: Sequence[float | None], compliant: Sequence[bool | None], config: GrpoConfig
) -> ConstrainedGroup:
    """Calibrate one group, standardise it, then apply the options for violators.

    ``clamp_violators`` holds the advantage of a violator at 0 or below; it acts after
    standardisation, so the other advantages are those of the unclamped group.
    ``skip_all_violating`` leaves a group without any complier out of training.
    """
    rewards = calibrate(
        qualities,
        compliant,
        mode=config.calibration,
        margin=config.calibration_margin,
        bonus=config.fixed_bonus,
    )
    outcome = group_advantages(
        rewards.rewards,
        normalise=config.normalise,
        epsilon=config.epsilon,
        min_group_size=config.min_group_size,
    )
    if (
        config.skip_all_violating
        and rewards.all_violating
        and outcome.status is not GroupStatus.TOO_SMALL
    ):
        nothing = (None,) * len(outcome.advantages)
        outcome = replace(outcome, advantages=nothing, status=GroupStatus.ALL_VIOLATING_SKIPPED)
    if config.clamp_violators:
        outcome = replace(outcome, advantages=_clamp(outcome.advantages, compliant))
    scored = [(a, b) for a, b in zip(outcome.advantages, compliant, strict=True) if a is not None]
    return ConstrainedGroup(
        rewards=rewards,
        outcome=outcome,
        positive_violators=sum(a > 0 for a, b in scored if b is False),
        negative_compliers=sum(a < 0 for a, b in scored if b is True),
    )


def _shift(best_broken: float, worst_met: float, margin: float) -> float:
    """Return Δ, a rounding error larger where the order would else be lost to rounding."""
    shift = max(0.0, best_broken - worst_met + margin)
    ulp = math.ulp(max(abs(best_broken), abs(worst_met), shift, margin))
    while best_broken - shift + margin > worst_met:
        shift += ulp
    return shift


def _reward(
    kind: CalibrationMode, quality: float | None, met: bool | None, shift: float, bonus: float
) -> float | None:
    if quality is None or kind is CalibrationMode.QUALITY_ONLY:
        return quality
    if met is None:
        return None
    if kind is CalibrationMode.FIXED_BONUS:
        return quality + bonus * met
    return quality if met else quality - shift


def _clamp(
    advantages: Sequence[float | None], compliant: Sequence[bool | None]
) -> tuple[float | None, ...]:
    """Return the advantages with those of violators at most 0."""
    return tuple(
        min(a, 0.0) if a is not None and b is False else a
        for a, b in zip(advantages, compliant, strict=True)
    )
