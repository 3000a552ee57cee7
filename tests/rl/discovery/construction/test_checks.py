"""Each fault of an answer is found and named; a sound one passes."""

import pytest

from rl.discovery.construction.answers import (
    Forest,
    Level,
    Opening,
    PlacedNode,
    Requirements,
    Statement,
    read,
    schema_of,
)
from rl.discovery.construction.checks import (
    check_forest,
    check_level,
    check_opening,
    check_requirements,
)
from rl.discovery.tree import IntentNode, IntentTree
from rl.llm.client import OutOfSchemaError

LEAVES = ("It is set on a tram.", "The driver tells it.", "It ends in rain.")
BROADER = Statement("It is set on public transport.", (1, 2))
WEATHER = Statement("The weather matters.", (3,))
STATEMENTS = [*LEAVES, BROADER.text, WEATHER.text]
BREADTH = [0, 0, 0, 1, 1]


def node(statement: int, place: str, **changes: object) -> PlacedNode:
    whole = {"dimension": "what", "cues": ("a",), "alternatives": ("b",)} | changes
    return PlacedNode(statement, place, **whole)


SOUND = (node(4, "1"), node(1, "1.1"), node(2, "1.2"), node(5, "2"), node(3, "2.1"))


def test_sound_answers_pass() -> None:
    check_requirements(Requirements(LEAVES))
    check_level(Level((BROADER, WEATHER)), [LEAVES])
    check_level(Level(()), [LEAVES])
    check_forest(Forest(SOUND), STATEMENTS, BREADTH)


@pytest.mark.parametrize(
    ("requirements", "told"),
    [
        ((), "0 requirements"),
        (("a",) * 17, "17 requirements"),
        (("It rains.", "it  rains"), "'it  rains' stands there twice"),
        (("a", " . "), "a statement is empty"),
    ],
)
def test_bad_requirements(requirements: tuple[str, ...], told: str) -> None:
    with pytest.raises(OutOfSchemaError, match=told):
        check_requirements(Requirements(requirements))


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        ((BROADER,), "no broader statement covers 3"),
        ((BROADER, Statement("x", ())), "'x' covers none"),
        ((BROADER, Statement("x", (4,))), "'x' covers 4, but the statements below are 1 to 3"),
        ((BROADER, Statement("It ends in rain", (3,))), "stands there twice"),
        (tuple(Statement(f"s{i}", (1, 2, 3)) for i in range(4)), "4 broader statements for 3"),
    ],
)
def test_a_level_that_is_no_superset(statements: tuple[Statement, ...], told: str) -> None:
    with pytest.raises(OutOfSchemaError, match=told):
        check_level(Level(statements), [LEAVES])


def test_a_statement_of_any_level_below_is_no_new_one() -> None:
    with pytest.raises(OutOfSchemaError, match="stands there twice"):
        check_level(Level((Statement(LEAVES[0], (1, 2)),)), [LEAVES, ("a", "b")])


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (SOUND[:4], "statement 3 is not in the tree"),
        ((*SOUND, node(3, "2.2")), "statement 3 is in the tree twice"),
        ((*SOUND[:4], node(9, "2.1")), "there is no statement 9"),
        ((*SOUND[:4], node(3, "2")), "two nodes have the same id"),
        ((*SOUND[:4], node(3, "3.1")), "node 3.1 has no parent 3"),
        ((*SOUND[:4], node(3, "b.1")), "'b.1' is no dotted id"),
        ((*SOUND[:4], node(3, "1.1.1")), "node 1.1 is not broader than its child 1.1.1"),
        ((*SOUND[:4], node(3, "2.1", cues=())), "node 2.1: cues must not be empty"),
        ((*SOUND[:4], node(3, "2.1", dimension=" ")), "node 2.1: dimension must not be empty"),
    ],
)
def test_a_forest_with_a_fault(nodes: tuple[PlacedNode, ...], told: str) -> None:
    with pytest.raises(OutOfSchemaError, match=told):
        check_forest(Forest(nodes), STATEMENTS, BREADTH)


TREE = IntentTree(
    (
        IntentNode(
            "1",
            "It is set on public transport.",
            "setting",
            ("transport",),
            ("at sea",),
            (IntentNode("1.1", "It is set on a tram.", "which", ("tram",), ("bus",)),),
        ),
        IntentNode("2", "The weather matters.", "mood", ("rain",), ("sun",)),
    )
)


def test_an_opening_names_its_roots_and_nothing_else() -> None:
    check_opening(Opening("a story on some public transport", ("1",)), TREE)
    for opening, known, told in (
        ("a story on public transport, a tram", ("1",), "gives away .*: It is set on a tram"),
        ("a story on transport, with rain", ("1",), "gives away .*: The weather matters"),
        ("a story", (), "known is"),
        ("a story", ("1.1",), "known is"),
        ("word " * 41, ("1",), "41 words"),
    ):
        with pytest.raises(OutOfSchemaError, match=told):
            check_opening(Opening(opening, known), TREE)


def test_answers_follow_their_schema_and_nothing_else() -> None:
    assert read(Requirements, '{"requirements": ["a"]}') == Requirements(("a",))
    for text in ("", "[]", '{"requirements": [1]}', '{"requirements": [], "more": 1}'):
        with pytest.raises(OutOfSchemaError, match="not the JSON object"):
            read(Requirements, text)
    schema = schema_of(Forest)
    assert schema["$defs"]["PlacedNode"]["additionalProperties"] is False
