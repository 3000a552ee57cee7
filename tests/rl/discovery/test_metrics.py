"""Discover and Satisfy on a tree small enough to count."""

import pytest

from rl.discovery.metrics import discover, satisfy
from rl.discovery.tree import Awareness, IntentNode, IntentTree, TreeState, initial_state

TREE = IntentTree(tuple(IntentNode(id=str(i), text="t", dimension="d") for i in range(1, 9)))


def test_shares_of_all_nodes():
    awareness = dict.fromkeys(TREE.nodes, Awareness.UNDISCOVERED)
    awareness |= dict.fromkeys("123", Awareness.DISCOVERED)
    awareness |= {"4": Awareness.EMERGING}
    state = TreeState(awareness, satisfied=frozenset("2"))
    assert discover(TREE, state) == pytest.approx(37.5)
    assert satisfy(TREE, state) == pytest.approx(12.5)


def test_known_roots_count_as_discovered():
    start = initial_state(TREE, ("1", "2"))
    assert (discover(TREE, start), satisfy(TREE, start)) == (25.0, 0.0)


def test_the_end_of_the_scale():
    everything = TreeState(dict.fromkeys(TREE.nodes, Awareness.DISCOVERED), frozenset(TREE.nodes))
    assert (discover(TREE, everything), satisfy(TREE, everything)) == (100.0, 100.0)
