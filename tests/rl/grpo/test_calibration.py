import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rl.config.schema import GrpoConfig
from rl.grpo.advantages import GroupStatus
from rl.grpo.calibration import calibrate, constrained_advantages

# Multiples of 1/64 add and subtract without rounding, so that the properties are exact.
exact = st.integers(-256, 256).map(lambda n: n / 64)
margins = st.integers(0, 64).map(lambda n: n / 64)
answers = st.sampled_from([True, False])


@st.composite
def mixed_groups(draw):
    group = draw(st.lists(st.tuples(exact, answers), min_size=2, max_size=10))
    assume(len({b for _, b in group}) == 2)
    return [q for q, _ in group], [b for _, b in group]


def split(values, compliant):
    met = [v for v, b in zip(values, compliant, strict=True) if b]
    broken = [v for v, b in zip(values, compliant, strict=True) if not b]
    return met, broken


def test_worked_example_of_the_specification():
    qualities, compliant = [0.9, 0.0, 0.5], [False, False, True]
    result = calibrate(qualities, compliant, mode="calibrated", margin=0.1)
    assert result.shift == pytest.approx(0.5)
    assert result.rewards == pytest.approx([0.4, -0.5, 0.5])
    group = constrained_advantages(qualities, compliant, GrpoConfig(calibration="calibrated"))
    # mean 0.4/3 = 2/15, population variance (0.16 + 0.25 + 0.25)/3 − (2/15)²
    scale = math.sqrt(0.22 - (2 / 15) ** 2 + 1e-6)
    expected = [(r - 2 / 15) / scale for r in (0.4, -0.5, 0.5)]
    assert group.outcome.advantages == pytest.approx(expected)
    assert group.outcome.advantages[0] > 0  # order is not sign
    assert group.positive_violators == 1
    assert group.negative_compliers == 0


@given(mixed_groups(), margins)
def test_separation_and_minimality(group, margin):
    qualities, compliant = group
    result = calibrate(qualities, compliant, mode="calibrated", margin=margin)
    met, broken = split(result.rewards, compliant)
    assert max(broken) + margin <= min(met)
    if result.shift > 0:  # then the bound is met with equality: no smaller shift separates
        assert max(broken) + margin == min(met)
    else:
        met_q, broken_q = split(qualities, compliant)
        assert max(broken_q) + margin <= min(met_q)


@given(mixed_groups(), margins)
def test_gaps_within_a_class_are_untouched(group, margin):
    qualities, compliant = group
    rewards = calibrate(qualities, compliant, mode="calibrated", margin=margin).rewards
    met, broken = split(rewards, compliant)
    met_q, broken_q = split(qualities, compliant)
    assert met == met_q
    assert [r - broken[0] for r in broken] == [q - broken_q[0] for q in broken_q]


@given(mixed_groups(), st.sampled_from(["std", "mean"]))
def test_order_survives_standardisation(group, normalise):
    qualities, compliant = group
    config = GrpoConfig(calibration="calibrated", calibration_margin=1 / 8, normalise=normalise)
    scores = constrained_advantages(qualities, compliant, config)
    met, broken = split(scores.outcome.advantages, compliant)
    assert max(broken) < min(met)
    rewards = scores.rewards.rewards
    by_reward = sorted(range(len(rewards)), key=lambda i: (rewards[i], i))
    advantages = [scores.outcome.advantages[i] for i in by_reward]
    assert advantages == sorted(advantages)


@given(st.lists(exact, min_size=1, max_size=8), answers)
def test_groups_of_one_kind_keep_their_quality(qualities, answer):
    result = calibrate(qualities, [answer] * len(qualities), mode="calibrated", margin=0.5)
    assert result.rewards == tuple(qualities)
    assert result.shift == 0.0
    assert not result.mixed
    assert result.all_violating is (not answer)


@given(
    st.lists(
        st.tuples(st.none() | exact, st.none() | answers),
        max_size=10,
    ),
    st.sampled_from(["calibrated", "fixed_bonus"]),
)
def test_pitfall_16_abstentions_leave_and_change_nothing(group, mode):
    qualities, compliant = [q for q, _ in group], [b for _, b in group]
    rewards = calibrate(qualities, compliant, mode=mode).rewards
    known = [(q, b) for q, b in group if q is not None and b is not None]
    alone = calibrate([q for q, _ in known], [b for _, b in known], mode=mode)
    for (quality, met), reward in zip(group, rewards, strict=True):
        assert (reward is None) == (quality is None or met is None)
    assert tuple(r for r in rewards if r is not None) == alone.rewards


def test_quality_only_does_not_ask_the_verifier():
    result = calibrate([1.0, 2.0, None], [None, False, True], mode="quality_only")
    assert result.rewards == (1.0, 2.0, None)
    assert (result.compliers, result.violators) == (0, 1)


def test_fixed_bonus_is_paid_to_compliers_only():
    result = calibrate([1.0, 2.0], [True, False], mode="fixed_bonus", bonus=0.5)
    assert result.rewards == (1.5, 2.0)  # λ_b = 0.5 does not reorder this group
    assert result.shift == 0.0


def test_unshifted_when_quality_already_separates():
    result = calibrate([0.9, 0.2], [True, False], mode="calibrated", margin=0.1)
    assert result.rewards == (0.9, 0.2)
    assert result.mixed


@given(mixed_groups())
def test_clamped_violators_never_gain_and_others_are_unchanged(group):
    qualities, compliant = group
    plain = constrained_advantages(qualities, compliant, GrpoConfig(calibration="calibrated"))
    clamped = constrained_advantages(
        qualities, compliant, GrpoConfig(calibration="calibrated", clamp_violators=True)
    )
    assert clamped.positive_violators == 0
    pairs = zip(plain.outcome.advantages, clamped.outcome.advantages, compliant, strict=True)
    for before, after, met in pairs:
        assert after == (before if met else min(before, 0.0))


def test_all_violating_group_is_trained_unless_skipped():
    qualities, compliant = [0.1, 0.7], [False, False]
    trained = constrained_advantages(qualities, compliant, GrpoConfig(calibration="calibrated"))
    assert trained.outcome.status is GroupStatus.INFORMATIVE
    skipped = constrained_advantages(
        qualities, compliant, GrpoConfig(calibration="calibrated", skip_all_violating=True)
    )
    assert skipped.outcome.status is GroupStatus.ALL_VIOLATING_SKIPPED
    assert skipped.outcome.weight == 0.0
    assert skipped.outcome.advantages == (None, None)
    assert skipped.rewards.all_violating


def test_skipping_leaves_other_groups_alone():
    config = GrpoConfig(calibration="calibrated", skip_all_violating=True)
    mixed = constrained_advantages([0.1, 0.7], [True, False], config)
    assert mixed.outcome.status is GroupStatus.INFORMATIVE
    too_small = constrained_advantages([0.1, None], [False, False], config)
    assert too_small.outcome.status is GroupStatus.TOO_SMALL


def test_negative_advantage_compliers_are_counted():
    scores = constrained_advantages(
        [0.0, 1.0, 0.1], [True, True, False], GrpoConfig(calibration="calibrated")
    )
    # Δ = 0.1 − 0.0 + 0.1 = 0.2: rewards 0.0, 1.0, −0.1 with mean 0.3
    assert scores.negative_compliers == 1
    assert scores.positive_violators == 0


def test_about_a_quarter_of_the_violators_in_random_mixed_groups_keep_a_positive_advantage():
    draw = random.Random(0)
    groups = []
    while len(groups) < 4000:
        compliant = [draw.random() < 0.5 for _ in range(4)]
        scores = constrained_advantages(
            [draw.random() for _ in range(4)], compliant, GrpoConfig(calibration="calibrated")
        )
        if scores.rewards.mixed:
            groups.append(scores)
    positive = sum(group.positive_violators for group in groups)
    assert 0.2 < positive / sum(group.rewards.violators for group in groups) < 0.26


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="2 qualities but 1"):
        calibrate([0.0, 1.0], [True], mode="calibrated")
    with pytest.raises(ValueError, match="margin is -1"):
        calibrate([0.0], [True], mode="calibrated", margin=-1.0)
    with pytest.raises(ValueError, match="quality 0 is nan"):
        calibrate([math.nan], [True], mode="calibrated")
    with pytest.raises(ValueError, match="shifted"):
        calibrate([0.0], [True], mode="shifted")


any_quality = st.floats(-1e100, 1e100)


@given(st.lists(st.tuples(any_quality, answers), min_size=2, max_size=6), st.floats(0, 1e100))
def test_the_order_survives_rounding(group, margin):
    qualities, compliant = [q for q, _ in group], [b for _, b in group]
    result = calibrate(qualities, compliant, mode="calibrated", margin=margin)
    met, broken = split(result.rewards, compliant)
    if met and broken:
        assert max(broken) + margin <= min(met)


def test_a_margin_of_nothing_leaves_no_rounding_error():
    result = calibrate([0.1, 2.4832572981495455], [True, False], mode="calibrated", margin=0.0)
    assert result.rewards[1] <= result.rewards[0]
    assert result.shift == pytest.approx(2.3832572981495455)


@pytest.mark.parametrize("changes", [{"margin": 1e200}, {"margin": -1.0}, {"bonus": math.inf}])
def test_a_margin_or_bonus_out_of_range_is_refused(changes):
    with pytest.raises(ValueError, match=f"{next(iter(changes))} is"):
        calibrate([0.1, 0.2], [True, False], **{"mode": "calibrated", "margin": 0.1, **changes})
