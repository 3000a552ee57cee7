"""How far a dialogue has come in its tree: settled nodes, finished roots, roots in focus."""

from enum import StrEnum

from rl.discovery.tree import IntentNode, IntentTree, TreeState


class Focus(StrEnum):
    """Which roots of the forest a turn can move (specification §2)."""

    ALL = "all"
    SINGLE_ROOT = "single_root"


def is_skipped(tree: IntentTree, state: TreeState, node: str) -> bool:
    """Return whether ``node`` is never judged again (specification §2, "Skip").

    These are satisfied nodes, and discovered inner nodes whose children are all discovered.
    """
    if node in state.satisfied:
        return True
    children = tree.nodes[node].children
    return (
        bool(children)
        and state.is_discovered(node)
        and all(state.is_discovered(child.id) for child in children)
    )


def all_satisfied(tree: IntentTree, state: TreeState) -> bool:
    """Return whether nothing is left to satisfy: every leaf is satisfied.

    An inner node is broader than its children, so that what meets a leaf meets every node above
    it; and once its children are discovered, an inner node is no longer judged by itself.
    """
    return all(_is_done(root, state) for root in tree.roots)


def live_roots(tree: IntentTree, state: TreeState, focus: Focus) -> tuple[str, ...]:
    """Return the ids of the roots whose trees this turn can move.

    ``all`` keeps every root. ``single_root`` keeps the first root that has an unsatisfied leaf,
    and no root when there is none.
    """
    if focus == Focus.ALL:
        return tuple(root.id for root in tree.roots)
    return tuple(root.id for root in tree.roots if not _is_done(root, state))[:1]


def _is_done(node: IntentNode, state: TreeState) -> bool:
    if not node.children:
        return node.id in state.satisfied
    return all(_is_done(child, state) for child in node.children)
