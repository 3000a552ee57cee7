"""The leak check: what counts as giving a node away, and what the user may say anyway."""

import pytest

from rl.discovery.secrecy import leaks
from rl.discovery.tree import Awareness, IntentNode, IntentTree, TreeState

U, E, D = Awareness.UNDISCOVERED, Awareness.EMERGING, Awareness.DISCOVERED


def node(id_, text, dimension, cues, *children):
    return IntentNode(id=id_, text=text, dimension=dimension, cues=cues, children=children)


TREE = IntentTree(
    (
        node(
            "1",
            "It is set on a station.",
            "place",
            ("station",),
            node(
                "1.1", "The station is by the sea.", "where it lies", ("the sea", "station", "C++")
            ),
            node(
                "1.2",
                "Old Mr. Hill sells tickets.",
                "who works there",
                ("old mr.", "ticket-seller"),
            ),
        ),
        node("2", "There is a goat.", "the animal in it", ("goat", "animal")),
    )
)


def state(**awareness):
    given = {name[1:].replace("_", "."): level for name, level in awareness.items()}
    return TreeState(dict.fromkeys(TREE.nodes, U) | {"1": D} | given)


START = state()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't know.", ()),
        ("a goat please", ("2",)),
        ("A GOAT!", ("2",)),
        ("the goat's beard", ("2",)),
        ("scapegoat, goatee", ()),
        ("near the\n  sea, with a goat", ("1.1", "2")),
        ("the seaside", ()),
        ("old mr. Hill", ("1.2",)),
        ("ticket-seller", ("1.2",)),
        ("in C++ perhaps", ("1.1",)),
        ("my old mrs", ()),
        ("well: there is a goat", ("2",)),
        ("the station is by the sea", ("1.1",)),
    ],
)
def test_cues_on_word_boundaries(text, expected):
    assert leaks(text, TREE, START) == expected


def test_typographic_signs_do_not_hide_a_cue():
    tree = IntentTree((node("1", "x y z", "d", ("cook's choice",)),))
    hidden = TreeState({"1": U})
    assert leaks("The Cook’s  Choice", tree, hidden) == ("1",)


@pytest.mark.parametrize(
    "said",
    [
        "_crème brûlée_ please",
        "**crème** `brûlée`",
        "cre\u0300me bru\u0302le\u0301e",  # the accents apart
        "cr\u00ade\u0300me\u200b brûlée",  # a soft hyphen, a zero-width space
        "CRÈME\u00a0BRÛLÉE",
    ],
)
def test_signs_and_encodings_that_look_alike_do_not_hide_a_cue(said):
    tree = IntentTree((node("1", "x y z", "d", ("crème brûlée",)),))
    assert leaks(said, tree, TreeState({"1": U})) == ("1",)


def test_every_dash_is_one():
    tree = IntentTree((node("1", "x y z", "d", ("ticket-seller",)),))
    for dash in "-‐‑–—":
        assert leaks(f"a ticket{dash}seller", tree, TreeState({"1": U})) == ("1",)


def test_a_text_of_signs_alone_gives_nothing_away():
    tree = IntentTree((node("1", "...", "d", ("goat", "*")),))
    assert leaks("so, that is it", tree, TreeState({"1": U})) == ()


def test_a_cue_shared_with_a_discovered_node_is_no_leak():
    assert leaks("on the station", TREE, START) == ()
    assert leaks("on the station", TREE, state(n1=U)) == ("1", "1.1")


def test_emerging_nodes_are_secret_but_their_dimension_is_not():
    assert leaks("some goat", TREE, state(n2=E)) == ("2",)
    assert leaks("I'm unsure about the animal in it", TREE, state(n2=E)) == ()
    assert leaks("I'm unsure about the animal in it", TREE, START) == ("2",)


def test_discovered_nodes_are_free():
    assert leaks("a goat, an animal", TREE, state(n2=D)) == ()


def test_words_in_a_discovered_text_are_free():
    tree = IntentTree((node("1", "A poem on a goat.", "topic", ()), node("2", "x", "y", ("goat",))))
    assert leaks("the goat", tree, TreeState({"1": D, "2": U})) == ()
    assert leaks("the goat", tree, TreeState({"1": E, "2": U})) == ("2",)


def test_the_opening_and_the_offered_option_are_free():
    opening, option = "something with an animal", "A tale by the sea"
    assert leaks("an animal by the sea", TREE, START) == ("1.1", "2")
    assert leaks("an animal by the sea", TREE, START, [opening, option]) == ()
    assert leaks("a goat by the sea", TREE, START, [opening, option]) == ("2",)
