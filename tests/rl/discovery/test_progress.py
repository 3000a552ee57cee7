"""Skipped nodes, finished roots and the root in focus, by hand."""

import pytest

from rl.discovery.progress import Focus, all_satisfied, is_skipped, live_roots
from rl.discovery.tree import Awareness, IntentNode, IntentTree, TreeState

U, E, D = Awareness.UNDISCOVERED, Awareness.EMERGING, Awareness.DISCOVERED


def node(id_, *children):
    return IntentNode(id=id_, text=f"text {id_}", dimension=f"dimension {id_}", children=children)


TREE = IntentTree((node("1", node("1.1"), node("1.2")), node("2"), node("3", node("3.1"))))


def state(discovered="", satisfied="", emerging=""):
    awareness = dict.fromkeys(TREE.nodes, U)
    awareness.update(dict.fromkeys(emerging.split(), E))
    awareness.update(dict.fromkeys(discovered.split(), D))
    return TreeState(awareness, frozenset(satisfied.split()))


@pytest.mark.parametrize(
    ("node_id", "at", "skipped"),
    [
        ("2", state("2"), False),
        ("2", state("2", "2"), True),
        ("1", state("1"), False),
        ("1", state("1 1.1"), False),
        ("1", state("1 1.1", emerging="1.2"), False),
        ("1", state("1 1.1 1.2"), True),
        ("1", state("1", "1"), True),
        ("1", state("1.1 1.2"), False),
        ("1.1", state("1 1.1"), False),
        ("3", state(), False),
    ],
)
def test_skip(node_id, at, skipped):
    assert is_skipped(TREE, at, node_id) is skipped


@pytest.mark.parametrize(
    ("satisfied", "root", "over"),
    [
        ("", "1", False),
        ("1", "1", False),
        ("1.1", "1", False),
        ("1.1 1.2", "2", False),
        ("2", "1", False),
        ("1.1 1.2 2", "3", False),
        ("1.1 1.2 2 3", "3", False),
        ("1.1 1.2 2 3.1", None, True),
    ],
)
def test_single_root_focus_and_the_end(satisfied, root, over):
    at = state(" ".join(TREE.nodes), satisfied)
    assert live_roots(TREE, at, Focus.SINGLE_ROOT) == (() if root is None else (root,))
    assert live_roots(TREE, at, Focus.ALL) == ("1", "2", "3")
    assert all_satisfied(TREE, at) is over
