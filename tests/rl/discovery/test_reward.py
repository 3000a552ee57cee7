"""Rewards worked out by hand: both variants, the length penalty and the window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.discovery.reward import (
    DiscoveryReward,
    RewardRules,
    summed_awareness,
    turn_reward,
    window_reward,
)
from rl.discovery.tree import Awareness, IntentNode, IntentTree, TreeState

U, E, D = Awareness.UNDISCOVERED, Awareness.EMERGING, Awareness.DISCOVERED


def node(id_, *children):
    return IntentNode(id=id_, text=f"text {id_}", dimension=f"dimension {id_}", children=children)


# 1 ─ 1.1 ─ 1.1.1
#   └ 1.2
# 2
TREE = IntentTree((node("1", node("1.1", node("1.1.1")), node("1.2")), node("2")))
COUNT, HALF = RewardRules(), RewardRules(variant=DiscoveryReward.HALF_CREDIT)


def state(discovered="", emerging=""):
    awareness = dict.fromkeys(TREE.nodes, U)
    awareness.update(dict.fromkeys(emerging.split(), E))
    awareness.update(dict.fromkeys(discovered.split(), D))
    return TreeState(awareness)


@pytest.mark.parametrize(
    ("before", "after", "count", "half_credit"),
    [
        (state("1"), state("1"), 0.0, 0.0),
        (state("1"), state("1 1.1 2"), 2.0, 2.0),
        (state("1"), state("1", "1.1"), 0.0, 0.5),
        (state("1", "1.1"), state("1 1.1"), 1.0, 0.5),
        (state("1", "2"), state("1 1.1 2", "1.2"), 2.0, 2.0),
        # 1.1 emerges while its only child is discovered: by roll-up it counts 1 at once.
        (state("1"), state("1 1.1.1", "1.1"), 1.0, 2.0),
        # Then 1.1 is discovered itself: nothing more to earn with half credit.
        (state("1 1.1.1", "1.1"), state("1 1.1 1.1.1"), 1.0, 0.0),
        # Roll-up climbs: 1.1 through 1.1.1, then 1 through 1.1 and 1.2.
        (state("1.2"), state("1.2 1.1.1"), 1.0, 3.0),
    ],
)
def test_discovery_by_hand(before, after, count, half_credit):
    assert turn_reward(TREE, before, after, 0, COUNT).discovery == count
    assert turn_reward(TREE, before, after, 0, HALF).discovery == half_credit


def test_summed_awareness_by_hand():
    assert summed_awareness(TREE, state()) == 0.0
    assert summed_awareness(TREE, state("1", "1.1 2")) == 2.0
    assert summed_awareness(TREE, state("1.1.1")) == 2.0
    assert summed_awareness(TREE, state("1.1.1 1.2 2")) == 5.0


@pytest.mark.parametrize(
    ("tokens", "penalty"),
    [(0, 0.0), (249, 0.0), (250, 0.0), (251, -0.001), (400, -0.15), (1250, -1.0), (9000, -1.0)],
)
def test_length_penalty_of_the_paper(tokens, penalty):
    parts = turn_reward(TREE, state("1"), state("1 2"), tokens, COUNT)
    assert parts.length_penalty == pytest.approx(penalty, abs=1e-12)
    assert parts.total == pytest.approx(1.0 + penalty, abs=1e-12)


def test_length_penalty_with_other_numbers():
    rules = RewardRules(length_penalty=0.02, free_tokens=32)
    assert turn_reward(TREE, state(), state(), 40, rules).length_penalty == pytest.approx(-0.16)


@pytest.mark.parametrize("tokens", [None, 3.0, "12", True, -1])
def test_a_missing_token_count_is_an_error(tokens):
    with pytest.raises(ValueError, match="token count"):
        turn_reward(TREE, state(), state(), tokens, COUNT)
    with pytest.raises(ValueError, match="token count"):
        window_reward(TREE, [state()] * 3, [5, tokens], 0, 1, COUNT)


# Three replies: discover 1, then nothing but an emerging 2, then 1.1 and 2.
STATES = [state(), state("1"), state("1", "2"), state("1 1.1 2")]
TOKENS = [300, 100, 450]


@pytest.mark.parametrize(
    ("turn", "window", "discovery", "penalty"),
    [
        (0, 0, 1.0, -0.05),
        (0, 1, 1.0, -0.15),
        (0, 2, 3.0, -0.6),
        (0, 9, 3.0, -0.6),
        (1, 0, 0.0, 0.0),
        (1, 1, 2.0, -0.3),
        (2, 0, 2.0, -0.2),
        (2, 3, 2.0, -0.2),
    ],
)
def test_window_by_hand(turn, window, discovery, penalty):
    parts = window_reward(TREE, STATES, TOKENS, turn, window, COUNT)
    assert parts.discovery == discovery
    assert parts.length_penalty == pytest.approx(penalty, abs=1e-12)


def test_window_with_half_credit():
    assert window_reward(TREE, STATES, TOKENS, 0, 1, HALF).discovery == 1.5


def test_window_zero_is_the_turn_reward():
    for turn, tokens in enumerate(TOKENS):
        own = turn_reward(TREE, STATES[turn], STATES[turn + 1], tokens, HALF)
        assert window_reward(TREE, STATES, TOKENS, turn, 0, HALF) == own


@pytest.mark.parametrize(
    ("states", "turn", "window", "message"),
    [
        (STATES[:3], 0, 0, "3 token counts need 4 states, got 3"),
        (STATES, 3, 0, "turn 3 is not one of the dialogue's 3 turns"),
        (STATES, -1, 0, "turn -1 is not one of"),
        (STATES, 0, -1, "window: -1 is negative"),
    ],
)
def test_impossible_windows_are_refused(states, turn, window, message):
    with pytest.raises(ValueError, match=message):
        window_reward(TREE, states, TOKENS, turn, window, COUNT)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"variant": "bonus"}, "reward: 'bonus' is none of count, half_credit"),
        ({"length_penalty": -0.1}, "length_penalty: -0.1 is negative"),
        ({"free_tokens": -1}, "free_tokens: -1 is negative"),
    ],
)
def test_impossible_rules_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        RewardRules(**kwargs)


LEVELS = st.lists(st.sampled_from([U, E, D]), min_size=len(TREE), max_size=len(TREE))


@given(LEVELS, LEVELS, st.integers(0, 5000), st.sampled_from(["count", "half_credit"]))
def test_bounds(first, second, tokens, variant):
    order = [U, E, D]
    higher = [max(a, b, key=order.index) for a, b in zip(first, second, strict=True)]
    before = TreeState(dict(zip(TREE.nodes, first, strict=True)))
    after = TreeState(dict(zip(TREE.nodes, higher, strict=True)))
    parts = turn_reward(TREE, before, after, tokens, RewardRules(variant=variant))
    assert 0.0 <= parts.discovery <= len(TREE)
    assert -1.0 <= parts.length_penalty <= 0.0
    assert parts.total == parts.discovery + parts.length_penalty
