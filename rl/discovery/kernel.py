"""The transition kernel: how one judged reply moves the user's awareness (specification §2).

Pure: the same tree, state, judgement, thresholds and rules always give the same result. The
thresholds are the only randomness. They are drawn once for each run seed and episode, so that the
K candidates of a group, which leave one state, differ in reward by what they say and not by luck.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from rl.discovery.progress import Focus, is_skipped, live_roots
from rl.discovery.tree import Awareness, IntentTree, TreeState, frontier
from rl.judging.interface import Engagement, Judgement, NodeJudgement, ReplyKind
from rl.seeding import derived_random

Thresholds = Mapping[str, tuple[float, float]]

_NEXT = {
    Awareness.UNDISCOVERED: Awareness.EMERGING,
    Awareness.EMERGING: Awareness.DISCOVERED,
}
_NOT_ENGAGED = NodeJudgement(Engagement.NONE)


class Gating(StrEnum):
    """Which nodes can move in a turn: below parents known before it, or a whole path at once."""

    STRICT = "strict"
    CASCADE = "cascade"


@dataclass(frozen=True)
class KernelRules:
    """The kernel's switches; the defaults are the paper's.

    ``tangential_probability`` is p, the score that one near miss adds.
    """

    gating: Gating = Gating.STRICT
    focus: Focus = Focus.ALL
    tangential_probability: float = 0.25

    def __post_init__(self) -> None:
        if self.gating not in tuple(Gating):
            raise ValueError(f"gating: {self.gating!r} is none of {', '.join(Gating)}")
        if self.focus not in tuple(Focus):
            raise ValueError(f"focus: {self.focus!r} is none of {', '.join(Focus)}")
        if not 0.0 <= self.tangential_probability <= 1.0:
            raise ValueError(
                f"tangential_probability: {self.tangential_probability} is not in [0, 1]"
            )


@dataclass(frozen=True)
class Transition:
    """What one reply did to one node.

    ``score`` is the tangential score that the reply left on the node: 0 after a move. With
    ``before`` equal to ``after`` the node gained score only, or was only satisfied.
    """

    node: str
    before: Awareness
    after: Awareness
    satisfied_now: bool
    cause: Engagement
    score: float

    @property
    def moved(self) -> bool:
        """Whether the node's awareness rose."""
        return self.before is not self.after


@dataclass(frozen=True)
class TransitionResult:
    """The state after a reply, the nodes that it touched, and the judged nodes that it could not.

    ``ignored`` lists the nodes that the judge called engaged but that the rules kept still:
    unknown, skipped, out of focus or gated.
    """

    state: TreeState
    transitions: tuple[Transition, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def discovered_now(self) -> tuple[str, ...]:
        """The nodes that this reply made the user discover."""
        return tuple(
            t.node for t in self.transitions if t.moved and t.after is Awareness.DISCOVERED
        )

    @property
    def satisfied_now(self) -> tuple[str, ...]:
        """The nodes that this reply satisfied."""
        return tuple(t.node for t in self.transitions if t.satisfied_now)


def draw_thresholds(tree: IntentTree, seed: int) -> dict[str, tuple[float, float]]:
    """Return two thresholds ~ U(0, 1) for each node: to become emerging, then discovered.

    A node's draw depends on ``seed`` and its id only, not on the rest of the tree.
    """
    thresholds: dict[str, tuple[float, float]] = {}
    for node in tree:
        random = derived_random(seed, "thresholds", node.id)
        thresholds[node.id] = (random.random(), random.random())
    return thresholds


def judgeable(tree: IntentTree, state: TreeState, rules: KernelRules) -> tuple[str, ...]:
    """Return the nodes that a reply could move, in tree order: the judge is asked about these.

    Strict gating: the frontier, and discovered nodes that are not satisfied. Cascade: also the
    nodes below those, since a hit on a parent opens its children in the same turn. Always under
    the focused roots, and never a skipped node.
    """
    live = live_roots(tree, state, rules.focus)
    strict = rules.gating == Gating.STRICT
    reachable = {*frontier(tree, state), *state.discovered} if strict else set(tree.nodes)
    return tuple(
        node
        for node in tree.nodes
        if node in reachable and tree.root_of(node) in live and not is_skipped(tree, state, node)
    )


def transition(
    tree: IntentTree,
    state: TreeState,
    judgement: Judgement,
    thresholds: Thresholds,
    rules: KernelRules,
) -> TransitionResult:
    """Apply one judged reply to ``state`` and return the new state with what changed."""
    open_nodes = _open_nodes(tree, state, judgement, rules)
    awareness, satisfied, scores = dict(state.awareness), set(state.satisfied), _scores(state)
    transitions: list[Transition] = []
    for node in open_nodes:
        change = _change(node, state, judgement, thresholds, rules)
        if change is None:
            continue
        transitions.append(change)
        awareness[node] = change.after
        scores.pop(node, None)
        if change.score > 0.0:
            scores[node] = change.score
        if change.satisfied_now:
            satisfied.add(node)
    ignored = tuple(
        node
        for node, entry in judgement.nodes.items()
        if entry.label is not Engagement.NONE and node not in open_nodes
    )
    after = TreeState(awareness=awareness, satisfied=frozenset(satisfied), scores=scores)
    return TransitionResult(after, tuple(transitions), ignored)


def _open_nodes(
    tree: IntentTree, state: TreeState, judgement: Judgement, rules: KernelRules
) -> dict[str, None]:
    """Return the judgeable nodes that gating lets this judgement move, in tree order.

    Under cascade a node is open when it is a root, when its parent is skipped (nothing is left
    to hit there), or when its parent is open itself and hit directly by this reply.
    """
    candidates = judgeable(tree, state, rules)
    if rules.gating == Gating.STRICT:
        return dict.fromkeys(candidates)
    opened: dict[str, None] = {}
    for node in candidates:
        parent = tree.parents[node]
        if (
            parent is None
            or is_skipped(tree, state, parent)
            or (parent in opened and judgement.label(parent) is Engagement.DIRECT)
        ):
            opened[node] = None
    return opened


def _change(
    node: str,
    state: TreeState,
    judgement: Judgement,
    thresholds: Thresholds,
    rules: KernelRules,
) -> Transition | None:
    """Return what the judgement does to one open node, or ``None`` if it leaves it as it is."""
    entry = judgement.nodes.get(node, _NOT_ENGAGED)
    before = state.awareness[node]
    if entry.label is Engagement.DIRECT:
        satisfied = judgement.kind is ReplyKind.DRAFT
        if before is Awareness.DISCOVERED and not satisfied:
            return None
        return Transition(node, before, Awareness.DISCOVERED, satisfied, entry.label, 0.0)
    if entry.label is Engagement.NONE or before is Awareness.DISCOVERED:
        return None
    gained = rules.tangential_probability * max(1, entry.near_misses)
    score = _scores(state).get(node, 0.0) + gained
    threshold = thresholds[node][0 if before is Awareness.UNDISCOVERED else 1]
    if score > threshold:
        return Transition(node, before, _NEXT[before], False, entry.label, 0.0)
    return Transition(node, before, before, False, entry.label, score)


def _scores(state: TreeState) -> dict[str, float]:
    return dict(state.scores or {})
