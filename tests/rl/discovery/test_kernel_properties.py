"""The transition kernel on random dialogues: invariants, thresholds and mean turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.discovery.kernel import Gating, KernelRules, draw_thresholds, judgeable, transition
from rl.discovery.progress import Focus
from rl.discovery.tree import Awareness, IntentNode, IntentTree, initial_state
from rl.judging.interface import Engagement, Judgement, NodeJudgement, ReplyKind

D = Awareness.DISCOVERED
ORDER = [Awareness.UNDISCOVERED, Awareness.EMERGING, D]
STRICT = KernelRules()


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


# --- mean turns, specification §2 -------------------------------------------------------------


def near_miss(count):
    return NodeJudgement(Engagement.TANGENTIAL, near_misses=count)


def turns_to_move(seed, near_misses):
    """Return the turns until the lone node ``1`` is (emerging, discovered)."""
    lone = IntentTree((node("1"),))
    thresholds = draw_thresholds(lone, seed)
    at, reached = initial_state(lone, ()), []
    for turn in range(1, 20):
        before = at.awareness["1"]
        reply = Judgement("hand", ReplyKind.OPTIONS, {"1": near_miss(near_misses)})
        at = transition(lone, at, reply, thresholds, STRICT).state
        if at.awareness["1"] is not before:
            reached.append(turn)
        if at.awareness["1"] is D:
            break
    return reached


@pytest.mark.parametrize(
    ("near_misses", "mean_emerging", "mean_discovered", "most"),
    [(1, 2.5, 5.0, 8), (2, 1.5, 3.0, 4)],
)
def test_mean_turns_of_the_specification(near_misses, mean_emerging, mean_discovered, most):
    runs = [turns_to_move(seed, near_misses) for seed in range(4000)]
    assert all(len(run) == 2 for run in runs)
    # Standard errors are at most 0.025, so 0.1 is four of them.
    assert sum(run[0] for run in runs) / len(runs) == pytest.approx(mean_emerging, abs=0.1)
    assert sum(run[1] for run in runs) / len(runs) == pytest.approx(mean_discovered, abs=0.1)
    assert max(run[1] for run in runs) == most


# --- thresholds -------------------------------------------------------------------------------


def test_thresholds_depend_on_seed_and_node_only():
    lone = IntentTree((node("1"),))
    assert draw_thresholds(TREE, 3)["1"] == draw_thresholds(lone, 3)["1"]
    assert draw_thresholds(TREE, 3) == draw_thresholds(TREE, 3)
    assert draw_thresholds(TREE, 3) != draw_thresholds(TREE, 4)


def test_thresholds_are_uniform_and_distinct():
    draws = [
        x for seed in range(500) for pair in draw_thresholds(TREE, seed).values() for x in pair
    ]
    assert all(0.0 <= x < 1.0 for x in draws)
    assert len(set(draws)) == len(draws) == 500 * 7 * 2
    tenths = [sum(k <= 10 * x < k + 1 for x in draws) / len(draws) for k in range(10)]
    assert tenths == pytest.approx([0.1] * 10, abs=0.02)


# --- invariants on random dialogues -----------------------------------------------------------

ENTRIES = st.builds(NodeJudgement, label=st.sampled_from(Engagement), near_misses=st.integers(0, 9))
JUDGEMENTS = st.builds(
    Judgement,
    judge=st.just("random"),
    kind=st.sampled_from(ReplyKind),
    nodes=st.dictionaries(st.sampled_from([*TREE.nodes, "9"]), ENTRIES),
)
RULES = st.builds(KernelRules, st.sampled_from(Gating), st.sampled_from(Focus))
KNOWN = st.sampled_from([(), ("1",), ("2",), ("1", "2")])
SEEDS = st.integers(0, 2**32)


def walk(known, judgements, seed, rules):
    """Yield (state before, judgement, result) for each turn."""
    at, thresholds = initial_state(TREE, known), draw_thresholds(TREE, seed)
    for judgement in judgements:
        result = transition(TREE, at, judgement, thresholds, rules)
        yield at, judgement, result
        at = result.state


@given(KNOWN, st.lists(JUDGEMENTS, max_size=6), SEEDS, RULES)
def test_awareness_and_satisfaction_never_fall(known, judgements, seed, rules):
    for before, _, result in walk(known, judgements, seed, rules):
        for n in TREE.nodes:
            assert ORDER.index(result.state.awareness[n]) >= ORDER.index(before.awareness[n])
        assert result.state.satisfied >= before.satisfied
        assert result.state.satisfied <= result.state.discovered


@given(KNOWN, st.lists(JUDGEMENTS, max_size=6), SEEDS, st.sampled_from(Focus))
def test_strict_gating_moves_only_below_parents_known_before(known, judgements, seed, focus):
    for before, _, result in walk(known, judgements, seed, KernelRules(focus=focus)):
        for t in result.transitions:
            parent = TREE.parents[t.node]
            assert parent is None or before.is_discovered(parent)


@given(KNOWN, st.lists(JUDGEMENTS, max_size=6), SEEDS, st.sampled_from(Focus))
def test_cascade_moves_only_below_parents_hit_or_settled(known, judgements, seed, focus):
    rules = KernelRules(Gating.CASCADE, focus)
    for before, judgement, result in walk(known, judgements, seed, rules):
        for t in result.transitions:
            parent = TREE.parents[t.node]
            assert (
                parent is None
                or judgement.label(parent) is Engagement.DIRECT
                or parent in before.satisfied
                or all(before.is_discovered(c.id) for c in TREE.nodes[parent].children)
            )
            assert parent is None or result.state.is_discovered(parent)


@given(KNOWN, st.lists(JUDGEMENTS, max_size=6), SEEDS, RULES)
def test_tangential_hits_move_one_step_and_restart_the_score(known, judgements, seed, rules):
    for _, judgement, result in walk(known, judgements, seed, rules):
        for t in result.transitions:
            assert t.cause is judgement.label(t.node) is not Engagement.NONE
            step = ORDER.index(t.after) - ORDER.index(t.before)
            if t.cause is Engagement.TANGENTIAL:
                assert step in (0, 1)
                assert not t.satisfied_now
                assert (t.score == 0.0) == (step == 1)
            assert result.state.scores.get(t.node, 0.0) == t.score


@given(KNOWN, st.lists(JUDGEMENTS, max_size=6), SEEDS, RULES)
def test_only_engaged_judgeable_nodes_change_and_the_rest_is_reported(
    known, judgements, seed, rules
):
    for before, judgement, result in walk(known, judgements, seed, rules):
        asked = judgeable(TREE, before, rules)
        changed = {
            n
            for n in TREE.nodes
            if result.state.awareness[n] is not before.awareness[n]
            or (n in result.state.satisfied) is not (n in before.satisfied)
            or result.state.scores.get(n, 0.0) != before.scores.get(n, 0.0)
        }
        engaged = {n for n in judgement.nodes if judgement.label(n) is not Engagement.NONE}
        assert changed == {t.node for t in result.transitions}
        assert changed <= engaged & set(asked)
        assert engaged - set(asked) <= set(result.ignored) <= engaged - changed


@given(KNOWN, st.lists(JUDGEMENTS, max_size=4), st.lists(JUDGEMENTS, min_size=2), SEEDS, RULES)
def test_candidates_of_one_group_differ_by_what_they_say_only(
    known, judgements, candidates, seed, rules
):
    """K candidates from one state: order and number do not matter, equal ones end equal."""
    at = initial_state(TREE, known)
    for _, _, result in walk(known, judgements, seed, rules):
        at = result.state
    thresholds = draw_thresholds(TREE, seed)
    group = [*candidates, candidates[0]]
    forward = [transition(TREE, at, c, thresholds, rules) for c in group]
    redrawn = draw_thresholds(TREE, seed)
    backward = [transition(TREE, at, c, redrawn, rules) for c in reversed(group)]
    assert forward == backward[::-1]
    assert forward[0] == forward[-1]


@given(KNOWN, st.lists(JUDGEMENTS, max_size=6), SEEDS, RULES)
def test_the_same_inputs_give_the_same_dialogue(known, judgements, seed, rules):
    first = list(walk(known, judgements, seed, rules))
    assert first == list(walk(known, judgements, seed, rules))
