"""The transition kernel against cases worked out by hand."""

from dataclasses import dataclass, field

import pytest

from rl.discovery.kernel import (
    Gating,
    KernelRules,
    Transition,
    judgeable,
    transition,
)
from rl.discovery.progress import Focus
from rl.discovery.tree import Awareness, IntentNode, IntentTree, TreeState
from rl.judging.interface import Engagement, Judgement, NodeJudgement, ReplyKind

U, E, D = Awareness.UNDISCOVERED, Awareness.EMERGING, Awareness.DISCOVERED


def node(id_, *children):
    return IntentNode(id=id_, text=f"text {id_}", dimension=f"dimension {id_}", children=children)


# 1 ─ 1.1 ─ 1.1.1, 1.1.2
#   └ 1.2
# 2 ─ 2.1
TREE = IntentTree(
    (
        node("1", node("1.1", node("1.1.1"), node("1.1.2")), node("1.2")),
        node("2", node("2.1")),
    )
)
THRESHOLDS = dict.fromkeys(TREE.nodes, (0.4, 0.6))
STRICT, CASCADE = KernelRules(), KernelRules(gating=Gating.CASCADE)
ONE_ROOT = KernelRules(focus=Focus.SINGLE_ROOT)
CASCADE_ONE_ROOT = KernelRules(gating=Gating.CASCADE, focus=Focus.SINGLE_ROOT)


def state(discovered="", emerging="", satisfied="", **scores):
    """Build a state from space-separated ids; scores are given as n1_1=0.25 for node 1.1."""
    awareness = dict.fromkeys(TREE.nodes, U)
    awareness.update(dict.fromkeys(emerging.split(), E))
    awareness.update(dict.fromkeys(discovered.split(), D))
    named = {name[1:].replace("_", "."): score for name, score in scores.items()}
    return TreeState(awareness, frozenset(satisfied.split()), named)


def judged(direct="", near=None, none="", kind=ReplyKind.QUESTION):
    nodes = {n: NodeJudgement(Engagement.DIRECT) for n in direct.split()}
    for n, count in (near or {}).items():
        nodes[n] = NodeJudgement(Engagement.TANGENTIAL, near_misses=count)
    nodes.update({n: NodeJudgement(Engagement.NONE) for n in none.split()})
    return Judgement(judge="hand", kind=kind, nodes=nodes)


def apply(before, judgement, rules):
    return transition(TREE, before, judgement, THRESHOLDS, rules)


@dataclass(frozen=True)
class Case:
    """One reply, and the whole state that it must lead to."""

    name: str
    rules: KernelRules
    before: TreeState
    judgement: Judgement
    after: TreeState
    ignored: tuple[str, ...] = field(default=())


CASES = [
    Case(
        "direct question discovers and does not satisfy",
        STRICT,
        state("1"),
        judged("1.1"),
        state("1 1.1"),
    ),
    Case(
        "direct draft discovers and satisfies",
        STRICT,
        state("1"),
        judged("1.2", kind=ReplyKind.DRAFT),
        state("1 1.2", satisfied="1.2"),
    ),
    Case(
        "direct hit on an emerging node discovers it and clears its score",
        STRICT,
        state("1", "1.1", n1_1=0.5),
        judged("1.1", kind=ReplyKind.OPTIONS),
        state("1 1.1"),
    ),
    Case(
        "draft meets a discovered node",
        STRICT,
        state("1 1.2"),
        judged("1.2", kind=ReplyKind.DRAFT),
        state("1 1.2", satisfied="1.2"),
    ),
    Case(
        "question about a discovered node changes nothing",
        STRICT,
        state("1 1.2"),
        judged("1.2"),
        state("1 1.2"),
    ),
    Case(
        "near-miss draft leaves a discovered node alone",
        STRICT,
        state("1 1.2"),
        judged(near={"1.2": 3}, kind=ReplyKind.DRAFT),
        state("1 1.2"),
    ),
    Case(
        "near-miss draft satisfies nothing even when the node moves",
        STRICT,
        state("1", "1.2", n1_2=0.5),
        judged(near={"1.2": 1}, kind=ReplyKind.DRAFT),
        state("1 1.2"),
    ),
    Case(
        "one near miss only adds 0.25",
        STRICT,
        state("1"),
        judged(near={"1.1": 1}),
        state("1", n1_1=0.25),
    ),
    Case(
        "unknown number of near misses counts as one",
        STRICT,
        state("1"),
        judged(near={"1.1": 0}),
        state("1", n1_1=0.25),
    ),
    Case(
        "two near misses pass 0.4 and the score starts again",
        STRICT,
        state("1"),
        judged(near={"1.1": 2}),
        state("1", "1.1"),
    ),
    Case(
        "a flood of near misses moves one step only",
        STRICT,
        state("1"),
        judged(near={"1.1": 40}),
        state("1", "1.1"),
    ),
    Case(
        "score gathered before counts",
        STRICT,
        state("1", n1_1=0.25),
        judged(near={"1.1": 1}),
        state("1", "1.1"),
    ),
    Case(
        "the second step has its own threshold 0.6",
        STRICT,
        state("1", "1.1", n1_1=0.25),
        judged(near={"1.1": 1}),
        state("1", "1.1", n1_1=0.5),
    ),
    Case(
        "second step passed",
        STRICT,
        state("1", "1.1", n1_1=0.5),
        judged(near={"1.1": 1}),
        state("1 1.1"),
    ),
    Case(
        "other nodes keep their scores",
        STRICT,
        state("1", n1_2=0.25),
        judged("1.1"),
        state("1 1.1", n1_2=0.25),
    ),
    Case(
        "strict: a child waits for the turn after its parent's discovery",
        STRICT,
        state("1"),
        judged("1.1 1.1.1"),
        state("1 1.1"),
        ("1.1.1",),
    ),
    Case(
        "strict: an emerging parent opens nothing",
        STRICT,
        state("1", "1.1"),
        judged("1.1.2"),
        state("1", "1.1"),
        ("1.1.2",),
    ),
    Case(
        "strict: a child of a discovered parent needs no new hit on it",
        STRICT,
        state("1 1.1"),
        judged("1.1.1"),
        state("1 1.1 1.1.1"),
    ),
    Case(
        "strict: every root is open",
        STRICT,
        state("1"),
        judged("2", near={"1.1": 2}),
        state("1 2", "1.1"),
    ),
    Case(
        "cascade: a whole path opens at once",
        CASCADE,
        state(),
        judged("1 1.1 1.1.1", kind=ReplyKind.DRAFT),
        state("1 1.1 1.1.1", satisfied="1 1.1 1.1.1"),
    ),
    Case(
        "cascade: the path ends where the parent was not hit",
        CASCADE,
        state("1"),
        judged("1 1.1.1"),
        state("1"),
        ("1.1.1",),
    ),
    Case(
        "cascade: a child of a discovered parent needs the parent hit again",
        CASCADE,
        state("1"),
        judged("1.1"),
        state("1"),
        ("1.1",),
    ),
    Case(
        "cascade: parent hit again",
        CASCADE,
        state("1"),
        judged("1 1.1"),
        state("1 1.1"),
    ),
    Case(
        "cascade: a tangential parent opens nothing",
        CASCADE,
        state(),
        judged("1.1", near={"1": 2}),
        state("", "1"),
        ("1.1",),
    ),
    Case(
        "cascade: near misses count below a parent that is hit",
        CASCADE,
        state(),
        judged("1", near={"1.1": 2, "1.2": 1}),
        state("1", "1.1", n1_2=0.25),
    ),
    Case(
        "cascade: below a satisfied parent nothing has to be hit again",
        CASCADE,
        state("1", satisfied="1"),
        judged("1.1"),
        state("1 1.1", satisfied="1"),
    ),
    Case(
        "cascade: below a parent with all children discovered likewise",
        CASCADE,
        state("1 1.1 1.2"),
        judged("1.2 1.1 1.1.1", kind=ReplyKind.DRAFT),
        state("1 1.1 1.2 1.1.1", satisfied="1.1 1.2 1.1.1"),
    ),
    Case(
        "cascade: a blocked hit does not pass the cascade on",
        CASCADE,
        state("1"),
        judged("1.1 1.1.1"),
        state("1"),
        ("1.1", "1.1.1"),
    ),
    Case(
        "skip: a satisfied leaf stays as it is",
        STRICT,
        state("1 1.2", satisfied="1.2"),
        judged("1.2", kind=ReplyKind.DRAFT),
        state("1 1.2", satisfied="1.2"),
        ("1.2",),
    ),
    Case(
        "skip: an inner node with all children discovered is never satisfied",
        STRICT,
        state("1 1.1 1.2"),
        judged("1", kind=ReplyKind.DRAFT),
        state("1 1.1 1.2"),
        ("1",),
    ),
    Case(
        "an inner node with an undiscovered child can be satisfied",
        STRICT,
        state("1 1.1"),
        judged("1", kind=ReplyKind.DRAFT),
        state("1 1.1", satisfied="1"),
    ),
    Case(
        "single root: later roots wait",
        ONE_ROOT,
        state("1 2"),
        judged("1.2 2 2.1"),
        state("1 1.2 2"),
        ("2", "2.1"),
    ),
    Case(
        "single root: satisfied leaves hand over, whatever the inner nodes",
        ONE_ROOT,
        state("1 1.1 1.1.1 1.1.2 1.2", satisfied="1.1.1 1.1.2 1.2"),
        judged("2"),
        state("1 1.1 1.1.1 1.1.2 1.2 2", satisfied="1.1.1 1.1.2 1.2"),
    ),
    Case(
        "single root: discovered leaves do not hand over",
        ONE_ROOT,
        state("1 1.1 1.1.1 1.1.2 1.2", satisfied="1.1.1 1.1.2"),
        judged("2 1.2", kind=ReplyKind.DRAFT),
        state("1 1.1 1.1.1 1.1.2 1.2", satisfied="1.1.1 1.1.2 1.2"),
        ("2",),
    ),
    Case(
        "single root and cascade together",
        CASCADE_ONE_ROOT,
        state(),
        judged("1 1.2 2 2.1"),
        state("1 1.2"),
        ("2", "2.1"),
    ),
    Case(
        "an unknown node is ignored",
        STRICT,
        state("1"),
        judged("7.3"),
        state("1"),
        ("7.3",),
    ),
    Case(
        "a label of none is neither applied nor counted",
        STRICT,
        state("1"),
        judged(none="1.1 1.1.1 7.3"),
        state("1"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hand_worked(case):
    result = apply(case.before, case.judgement, case.rules)
    assert result.state == case.after
    assert result.ignored == case.ignored


def test_transitions_say_what_happened_to_each_node():
    before = state("1", "1.2", n1_1=0.25, n1_2=0.25)
    result = apply(before, judged("1", {"1.1": 1, "1.2": 1}, kind=ReplyKind.DRAFT), STRICT)
    direct, tangential = Engagement.DIRECT, Engagement.TANGENTIAL
    assert result.transitions == (
        Transition("1", D, D, True, direct, 0.0),
        Transition("1.1", U, E, False, tangential, 0.0),
        Transition("1.2", E, E, False, tangential, 0.5),
    )
    assert [t.moved for t in result.transitions] == [False, True, False]
    assert (result.satisfied_now, result.discovered_now) == (("1",), ())


def test_a_score_must_pass_its_threshold_and_not_just_reach_it():
    exact = dict.fromkeys(TREE.nodes, (0.25, 0.25))
    reached = transition(TREE, state("1"), judged(near={"1.1": 1}), exact, STRICT).state
    assert reached == state("1", n1_1=0.25)
    assert transition(TREE, reached, judged(near={"1.1": 1}), exact, STRICT).state == state(
        "1", "1.1"
    )


def test_the_rules_set_what_a_near_miss_adds():
    rules = KernelRules(tangential_probability=0.125)
    assert apply(state("1"), judged(near={"1.1": 3}), rules).state == state("1", n1_1=0.375)


def test_discovered_now_lists_new_discoveries_only():
    result = apply(state("1"), judged("1.1 2", {"1.2": 2}), STRICT)
    assert result.discovered_now == ("1.1", "2")


def test_the_given_state_is_left_untouched():
    before = state("1", n1_1=0.25)
    apply(before, judged("1.2", {"1.1": 1}, kind=ReplyKind.DRAFT), STRICT)
    assert before == state("1", n1_1=0.25)


@pytest.mark.parametrize(
    ("rules", "before", "expected"),
    [
        (STRICT, state("1"), "1 1.1 1.2 2"),
        (STRICT, state("1 1.1", "2"), "1 1.1 1.1.1 1.1.2 1.2 2"),
        (STRICT, state("1 1.1 1.2", satisfied="1.2"), "1.1 1.1.1 1.1.2 2"),
        (CASCADE, state("1"), "1 1.1 1.1.1 1.1.2 1.2 2 2.1"),
        (CASCADE, state("1 1.1 1.2", satisfied="1.2"), "1.1 1.1.1 1.1.2 2 2.1"),
        (ONE_ROOT, state("1 2"), "1 1.1 1.2"),
        (ONE_ROOT, state("2 2.1", satisfied="2.1"), "1"),
        (CASCADE_ONE_ROOT, state("2"), "1 1.1 1.1.1 1.1.2 1.2"),
    ],
)
def test_judgeable(rules, before, expected):
    assert judgeable(TREE, before, rules) == tuple(expected.split())


@pytest.mark.parametrize("rules", [STRICT, CASCADE, ONE_ROOT])
def test_nothing_is_judgeable_once_every_leaf_is_satisfied(rules):
    done = state(
        "1 1.1 1.1.1 1.1.2 1.2 2 2.1",
        satisfied="1.1.1 1.1.2 1.2 2.1",
    )
    assert judgeable(TREE, done, rules) == ()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"gating": "loose"}, r"gating: 'loose' is none of strict, cascade"),
        ({"focus": "two"}, r"focus: 'two' is none of all, single_root"),
        ({"tangential_probability": 1.5}, r"tangential_probability: 1.5 is not in \[0, 1\]"),
    ],
)
def test_impossible_rules_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        KernelRules(**kwargs)


def test_rules_may_be_given_as_plain_words():
    plain = KernelRules(gating="cascade", focus="single_root")
    before = state()
    reply = judged("1 1.2 2")
    assert apply(before, reply, plain) == apply(before, reply, CASCADE_ONE_ROOT)
