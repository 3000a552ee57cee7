"""Discover and Satisfy: how much of a tree came to light, 0–100 (specification §7)."""

from rl.discovery.tree import IntentTree, TreeState


def discover(tree: IntentTree, state: TreeState) -> float:
    """Return the share of all nodes that are discovered in ``state``, times 100."""
    return 100.0 * len(state.discovered) / len(tree)


def satisfy(tree: IntentTree, state: TreeState) -> float:
    """Return the share of all nodes that are satisfied in ``state``, times 100."""
    return 100.0 * len(state.satisfied) / len(tree)
