import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rl.grpo.advantages import GroupStatus, group_advantages

rewards = st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 3))
groups = st.lists(st.none() | rewards, max_size=12)


def test_hand_worked_group():
    result = group_advantages([1.0, 2.0, 3.0, 4.0], epsilon=1e-6)
    scale = math.sqrt(1.25 + 1e-6)  # population variance of 1, 2, 3, 4 is 1.25
    assert result.advantages == pytest.approx(
        [-1.5 / scale, -0.5 / scale, 0.5 / scale, 1.5 / scale]
    )
    assert result.status is GroupStatus.INFORMATIVE
    assert result.weight == 1.0
    assert result.statistics.mean == 2.5
    assert result.statistics.deviation == pytest.approx(math.sqrt(1.25))


def test_mean_only_leaves_the_scale():
    result = group_advantages([0.0, 1.0, 5.0], normalise="mean")
    assert result.advantages == pytest.approx([-2.0, -1.0, 3.0])


def test_epsilon_stands_inside_the_root():
    result = group_advantages([0.0, 2.0], epsilon=3.0)  # variance 1, √(1 + 3) = 2
    assert result.advantages == pytest.approx([-0.5, 0.5])


@given(groups)
def test_agrees_with_numpy(group):
    scored = np.array([r for r in group if r is not None])
    result = group_advantages(group)
    if result.status is not GroupStatus.INFORMATIVE:
        return
    expected = iter((scored - scored.mean()) / np.sqrt(scored.var() + 1e-6))
    for reward, advantage in zip(group, result.advantages, strict=True):
        if reward is None:
            assert advantage is None
        else:
            assert advantage == pytest.approx(next(expected), rel=1e-9, abs=1e-9)


@given(st.lists(rewards, min_size=2, max_size=8).filter(lambda g: len(set(g)) > 1))
def test_verl_gives_the_same_after_conversion(group):
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    tokens = torch.tensor(group, dtype=torch.float64).unsqueeze(-1)
    theirs, _ = compute_grpo_outcome_advantage(
        tokens, torch.ones_like(tokens), np.zeros(len(group), dtype=int), epsilon=1e-6
    )
    result = group_advantages(group, epsilon=1e-6)
    # verl divides by (unbiased deviation + ε), we by √(population variance + ε)
    n, deviation = len(group), result.statistics.deviation
    ours_scale = math.sqrt(deviation**2 + 1e-6)
    verl_scale = deviation * math.sqrt(n / (n - 1)) + 1e-6
    converted = [a * ours_scale / verl_scale for a in result.advantages]
    assert converted == pytest.approx(theirs[:, 0].tolist(), rel=1e-9, abs=1e-9)


@given(groups, st.randoms(use_true_random=False))
def test_order_of_candidates_plays_no_part(group, random):
    order = list(range(len(group)))
    random.shuffle(order)
    straight = group_advantages(group)
    shuffled = group_advantages([group[i] for i in order])
    assert shuffled.status is straight.status
    assert shuffled.advantages == tuple(straight.advantages[i] for i in order)


@given(groups.filter(lambda g: sum(r is not None for r in g) >= 2))
def test_pitfall_14_unscored_candidates_leave_the_baseline(group):
    without = group_advantages([r for r in group if r is not None])
    assert [a for a in group_advantages(group).advantages if a is not None] == list(
        without.advantages
    )


def test_pitfall_15_partial_group_uses_its_own_size():
    # A full group of four would have mean 1.5; the two scored candidates have mean 2.
    result = group_advantages([1.0, None, None, 3.0], normalise="mean", min_group_size=2)
    assert result.advantages == (-1.0, None, None, 1.0)
    assert result.statistics.scored == 2


@given(groups)
def test_pitfall_16_an_unscored_candidate_is_neither_zero_nor_nan(group):
    result = group_advantages(group)
    for reward, advantage in zip(group, result.advantages, strict=True):
        if reward is None:
            assert advantage is None
        if advantage is not None:
            assert math.isfinite(advantage)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_pitfall_16_a_reward_that_is_not_finite_is_refused(bad):
    with pytest.raises(ValueError, match="reward 1 is"):
        group_advantages([0.0, bad])


@pytest.mark.parametrize(
    ("group", "minimum"), [([], 2), ([None, None], 2), ([7.0], 2), ([1.0, None, 2.0], 3)]
)
def test_pitfall_28_below_the_minimum_size_the_weight_is_zero(group, minimum):
    result = group_advantages(group, min_group_size=minimum)
    assert result.status is GroupStatus.TOO_SMALL
    assert result.weight == 0.0
    assert result.advantages == (None,) * len(group)  # and not the raw reward


@given(st.floats(-1e3, 1e3, allow_nan=False), st.integers(2, 12))
def test_pitfall_29_all_equal_rewards_give_exactly_zero(reward, size):
    for normalise in ("std", "mean"):
        result = group_advantages([reward] * size, normalise=normalise, epsilon=0.0)
        assert result.advantages == (0.0,) * size
        assert result.status is GroupStatus.UNINFORMATIVE
        assert result.weight == 0.0


@pytest.mark.parametrize("reward", [1e200, -1e101, math.inf, math.nan])
def test_rewards_whose_squares_overflow_are_refused(reward):
    with pytest.raises(ValueError, match="reward 1 is"):
        group_advantages([0.0, reward])


def test_the_largest_rewards_have_finite_advantages():
    assert group_advantages([1e100, -1e100]).advantages == pytest.approx([1.0, -1.0])
