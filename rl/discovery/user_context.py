"""What the user may draw on in one turn, built from the tree's state alone (specification §3).

Structural secrecy: a user turn is made of a :class:`UserIntentContext` and of what was said
before, and the text of an undiscovered or emerging node is in neither. A prompt cannot leak what
it does not hold.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from rl.discovery.progress import Focus, is_skipped, live_roots
from rl.discovery.tree import IntentNode, IntentTree, TreeState
from rl.judging.interface import Judgement


class UserMode(StrEnum):
    """What kind of wish a turn voices; the first that applies, in this order."""

    CLEAR = "clear"
    FUZZY = "fuzzy"
    LATENT = "latent"


@dataclass(frozen=True)
class UserIntentContext:
    """The material of one user turn; exactly one of the three wishes is filled in, by ``mode``.

    ``achieved`` are texts of satisfied nodes. ``clear`` are texts of discovered nodes to say
    directly. ``fuzzy`` are dimensions of emerging nodes to hint at. ``latent`` are dimensions of
    discovered nodes below which something is undiscovered; it may be empty even in its mode, when
    what is left lies below nothing discovered. All come with the most pressing first.
    ``option`` is the text of the offered option that the user likes best, if options were offered.
    """

    mode: UserMode
    opening: str
    achieved: tuple[str, ...] = ()
    clear: tuple[str, ...] = ()
    fuzzy: tuple[str, ...] = ()
    latent: tuple[str, ...] = ()
    option: str | None = None

    @property
    def speakable(self) -> tuple[str, ...]:
        """The texts that the user may repeat, for the leak check: the opening and the option."""
        return (self.opening,) if self.option is None else (self.opening, self.option)


def user_intent_context(
    tree: IntentTree,
    state: TreeState,
    opening: str,
    focus: Focus = Focus.ALL,
    before: TreeState | None = None,
    option: str | None = None,
) -> UserIntentContext:
    """Return what the user may say in ``state``.

    ``before`` is the state before the reply that the user answers: what is new since then is said
    first, and only what was newly satisfied counts as achieved. Raises ``ValueError`` when
    nothing is left to wish for: the dialogue is then over and no user turn is due.
    """
    live = live_roots(tree, state, focus)
    nodes = [node for node in tree if tree.root_of(node.id) in live]
    old_satisfied = before.satisfied if before else frozenset()
    achieved = tuple(n.text for n in tree if n.id in state.satisfied - old_satisfied)
    base = UserIntentContext(UserMode.LATENT, opening, achieved, option=option)

    clear = [n for n in nodes if state.is_discovered(n.id) and not is_skipped(tree, state, n.id)]
    if clear:
        news = state.discovered - (before.discovered if before else frozenset())
        texts = tuple(n.text for n in _pressing(clear, news))
        return replace(base, mode=UserMode.CLEAR, clear=texts)
    fuzzy = [n for n in nodes if n.id in state.emerging]
    if fuzzy:
        news = state.emerging - (before.emerging if before else frozenset())
        dimensions = tuple(n.dimension for n in _pressing(fuzzy, news))
        return replace(base, mode=UserMode.FUZZY, fuzzy=dimensions)
    if all(state.is_discovered(n.id) for n in nodes):
        raise ValueError("every intent is satisfied: the dialogue is over, no user turn is due")
    latent = [n for n in nodes if state.is_discovered(n.id) and _hides_something(n, state)]
    dimensions = tuple(n.dimension for n in _pressing(latent, frozenset()))
    return replace(base, latent=dimensions)


def closest_option(judgement: Judgement) -> str | None:
    """Return the text of the offered option closest to what the user wants, if there is one.

    Nothing else of a judgement may reach the user. An index out of range counts as none.
    """
    index = judgement.closest
    if index is None or not 0 <= index < len(judgement.options):
        return None
    return judgement.options[index].strip() or None


def _pressing(nodes: Iterable[IntentNode], news: frozenset[str]) -> list[IntentNode]:
    """Order ``nodes``: new ones first, then the most specific, then by place in the tree."""
    return sorted(nodes, key=lambda node: (node.id not in news, -node.id.count(".")))


def _hides_something(node: IntentNode, state: TreeState) -> bool:
    return any(not state.is_discovered(child.id) for child in node.children)
