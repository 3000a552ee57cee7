"""The reward of an assistant turn: newly discovered nodes less a capped length penalty (§5).

R = R_d + R_e. R_d is never negative and not divided by what is left to discover, R_e never
falls below -1, so that brevity cannot outweigh a discovery (DiscoverLLM, "asymmetric reward").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rl.discovery.tree import Awareness, IntentNode, IntentTree, TreeState


class DiscoveryReward(StrEnum):
    """How R_d counts: whole discoveries (paper), or summed awareness (release)."""

    COUNT = "count"
    HALF_CREDIT = "half_credit"


@dataclass(frozen=True)
class RewardRules:
    """The reward's switches: λ is per token above ``free_tokens`` (τ) of the policy's tokenizer."""

    variant: DiscoveryReward = DiscoveryReward.COUNT
    length_penalty: float = 1e-3
    free_tokens: int = 250

    def __post_init__(self) -> None:
        if self.variant not in tuple(DiscoveryReward):
            raise ValueError(f"reward: {self.variant!r} is none of {', '.join(DiscoveryReward)}")
        if self.length_penalty < 0.0:
            raise ValueError(f"length_penalty: {self.length_penalty} is negative")
        if self.free_tokens < 0:
            raise ValueError(f"free_tokens: {self.free_tokens} is negative")


@dataclass(frozen=True)
class RewardParts:
    """R_d (``discovery``, ≥ 0) and R_e (``length_penalty``, in [-1, 0])."""

    discovery: float
    length_penalty: float

    @property
    def total(self) -> float:
        """R = R_d + R_e."""
        return self.discovery + self.length_penalty


def turn_reward(
    tree: IntentTree, before: TreeState, after: TreeState, tokens: int, rules: RewardRules
) -> RewardParts:
    """Return the reward of one reply of ``tokens`` tokens that led from ``before`` to ``after``.

    Raises ``ValueError`` when ``tokens`` is no count: a missing tokenizer must not remove the
    penalty.
    """
    return RewardParts(_discovery(tree, before, after, rules), _length_penalty(tokens, rules))


def window_reward(
    tree: IntentTree,
    states: Sequence[TreeState],
    token_counts: Sequence[int],
    turn: int,
    window: int,
    rules: RewardRules,
) -> RewardParts:
    """Return the reward of reply ``turn`` seen over ``window`` further turns (§5, "Horizon").

    ``states[t]`` is the state before reply ``t`` and ``states[t + 1]`` the one after it, so there
    is one state more than there are ``token_counts``. The penalty is taken once, on the sum of
    the window's tokens. A dialogue that ends earlier cuts the window short; ``window = 0`` is the
    turn's own reward.
    """
    turns = len(token_counts)
    if len(states) != turns + 1:
        raise ValueError(f"{turns} token counts need {turns + 1} states, got {len(states)}")
    if not 0 <= turn < turns:
        raise ValueError(f"turn {turn} is not one of the dialogue's {turns} turns")
    if window < 0:
        raise ValueError(f"window: {window} is negative")
    end = min(turn + window + 1, turns)
    tokens = sum(_checked_count(count) for count in token_counts[turn:end])
    return turn_reward(tree, states[turn], states[end], tokens, rules)


def summed_awareness(tree: IntentTree, state: TreeState) -> float:
    """Return the sum of 0, 0.5 or 1 over all nodes, with roll-up.

    A node whose children all count 1 counts 1 itself, whatever its own awareness is.
    """
    return sum(value for root in tree.roots for value in _rolled_up(root, state))


def _rolled_up(node: IntentNode, state: TreeState) -> list[float]:
    """Return the values of ``node`` (first) and of everything below it."""
    below = [_rolled_up(child, state) for child in node.children]
    complete = bool(below) and all(values[0] == 1.0 for values in below)
    own = 1.0 if complete else state.awareness[node.id].value_in_sum
    return [own, *(value for values in below for value in values)]


def _discovery(tree: IntentTree, before: TreeState, after: TreeState, rules: RewardRules) -> float:
    if rules.variant == DiscoveryReward.HALF_CREDIT:
        return max(0.0, summed_awareness(tree, after) - summed_awareness(tree, before))
    return float(
        sum(
            awareness is Awareness.DISCOVERED and not before.is_discovered(node)
            for node, awareness in after.awareness.items()
        )
    )


def _length_penalty(tokens: int, rules: RewardRules) -> float:
    excess = max(0, _checked_count(tokens) - rules.free_tokens)
    return -min(rules.length_penalty * excess, 1.0) if excess else 0.0


def _checked_count(tokens: int) -> int:
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
        raise ValueError(f"token count: {tokens!r} is not a count of tokens (an integer ≥ 0)")
    return tokens
