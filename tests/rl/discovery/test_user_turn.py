"""The user turn: the choice of mode, structural secrecy, the prompt and the scripted user."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.data.tasks import TRAINING_DOMAINS, TRANSFER_DOMAINS, bundled_task_files, load_tasks
from rl.discovery import phrasing
from rl.discovery.kernel import Gating, KernelRules, draw_thresholds, judgeable, transition
from rl.discovery.progress import Focus, all_satisfied
from rl.discovery.tree import Awareness, IntentNode, IntentTree, TreeState, initial_state
from rl.discovery.user_turn import (
    UserMode,
    clean_user_text,
    closest_option,
    leaks,
    scripted_turn,
    user_intent_context,
    user_prompt_messages,
)
from rl.judging.interface import Engagement, Judgement, NodeJudgement, ReplyKind
from rl.seeding import derived_random

U, E, D = Awareness.UNDISCOVERED, Awareness.EMERGING, Awareness.DISCOVERED
OPENING = "write me a poem"
HISTORY = [("user", OPENING), ("assistant", "What should it be about?")]


def node(id_, *children):
    return IntentNode(id=id_, text=f"Text {id_}.", dimension=f"dimension {id_}", children=children)


TREE = IntentTree(
    (node("1", node("1.1", node("1.1.1")), node("1.2")), node("2", node("2.1")), node("3"))
)


def state(discovered="", emerging="", satisfied=""):
    awareness = dict.fromkeys(TREE.nodes, U)
    awareness.update(dict.fromkeys(emerging.split(), E))
    awareness.update(dict.fromkeys(discovered.split(), D))
    return TreeState(awareness, frozenset(satisfied.split()))


def context(at, **kwargs):
    return user_intent_context(TREE, at, OPENING, **kwargs)


# --- which wish is voiced ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "focus", "mode", "clear", "fuzzy", "latent"),
    [
        (state("1"), "all", "clear", ("Text 1.",), (), ()),
        # Emerging nodes wait while something is clear.
        (state("1", "1.1 2"), "all", "clear", ("Text 1.",), (), ()),
        # The most specific first; inner nodes whose children are all discovered are left out.
        (state("1 1.1 1.1.1 3"), "all", "clear", ("Text 1.1.1.", "Text 1.", "Text 3."), (), ()),
        (
            state("1", "2 1.1", "1"),
            "all",
            "fuzzy",
            (),
            ("dimension 1.1", "dimension 2"),
            (),
        ),
        (state("1 1.1", "", "1 1.1"), "all", "latent", (), (), ("dimension 1.1", "dimension 1")),
        (state("3", "", "3"), "all", "latent", (), (), ()),
        (state(), "all", "latent", (), (), ()),
        # One root at a time: root 3 is known but its turn has not come.
        (state("1 3", "1.1 2", "1"), "single_root", "fuzzy", (), ("dimension 1.1",), ()),
        (state("1 3"), "single_root", "clear", ("Text 1.",), (), ()),
    ],
)
def test_exactly_one_wish_in_order(at, focus, mode, clear, fuzzy, latent):
    made = context(at, focus=Focus(focus))
    assert made.mode == mode
    assert (made.clear, made.fuzzy, made.latent) == (clear, fuzzy, latent)


def test_achieved_items_are_those_satisfied_since_the_state_before():
    now = state("1 1.1 3", "", "1.1 3")
    assert context(now).achieved == ("Text 1.1.", "Text 3.")
    assert context(now, before=state("1 1.1 3", "", "1.1")).achieved == ("Text 3.",)
    assert context(now, before=now).achieved == ()


def test_what_is_new_is_said_first():
    before, now = state("1 1.1"), state("1 1.1 3")
    assert context(now).clear == ("Text 1.1.", "Text 1.", "Text 3.")
    assert context(now, before=before).clear == ("Text 3.", "Text 1.1.", "Text 1.")
    before, now = state("1", "1.1", "1"), state("1", "1.1 3", "1")
    assert context(now, before=before).fuzzy == ("dimension 3", "dimension 1.1")


@pytest.mark.parametrize("focus", Focus)
def test_no_turn_is_due_once_everything_is_satisfied(focus):
    over = state(" ".join(TREE.nodes), "", "1.1.1 1.2 2.1 3")
    assert all_satisfied(TREE, over)
    with pytest.raises(ValueError, match="dialogue is over"):
        context(over, focus=focus)


@pytest.mark.parametrize(
    ("options", "closest", "expected"),
    [
        (("a tram", " a ferry "), 1, "a ferry"),
        (("a tram",), 0, "a tram"),
        (("a tram",), None, None),
        (("a tram",), 1, None),
        (("a tram",), -1, None),
        ((), 0, None),
        (("  ",), 0, None),
    ],
)
def test_closest_option(options, closest, expected):
    judgement = Judgement("hand", ReplyKind.OPTIONS, {}, options, closest)
    assert closest_option(judgement) == expected


def test_speakable_texts():
    assert context(state("1")).speakable == (OPENING,)
    assert context(state("1"), option="a tram").speakable == (OPENING, "a tram")


# --- the prompt -------------------------------------------------------------------------------


def test_roles_are_flipped_and_the_task_stands_last():
    history = [*HISTORY, ("user", "the sea"), ("assistant", "Here is a draft.")]
    messages = user_prompt_messages(context(state("1"), option="a tram"), history)
    assert [m["role"] for m in messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert [m["content"] for m in messages[2:5]] == [OPENING, HISTORY[1][1], "the sea"]
    reply, task = messages[5]["content"].split("\n\n")
    assert reply == "Here is a draft."
    assert task.startswith("Answer in about 20 words, at most 40.")
    assert task.endswith("The closest option is: a tram. I want this: Text 1.")
    assert set(messages[0]) == {"role", "content"}


def test_fuzzy_and_latent_prompts_hint():
    fuzzy = user_prompt_messages(context(state("1", "1.1", "1")), HISTORY)[-1]["content"]
    assert "unsure about the dimension 1.1" in fuzzy
    latent = user_prompt_messages(context(state("1", "", "1")), HISTORY)[-1]["content"]
    assert "Something about the dimension 1 feels off" in latent
    nothing = user_prompt_messages(context(state()), HISTORY)[-1]["content"]
    assert "Something about it feels off" in nothing


@pytest.mark.parametrize(
    "history",
    [
        [],
        HISTORY[:1],
        HISTORY[1:],
        [*HISTORY, ("assistant", "more")],
        [("system", "be nice"), *HISTORY],
    ],
)
def test_a_history_that_does_not_alternate_is_refused(history):
    with pytest.raises(ValueError, match="history must alternate"):
        user_prompt_messages(context(state("1")), history)


# --- the scripted user ------------------------------------------------------------------------


def test_the_same_seed_says_the_same_and_seeds_vary():
    made = context(state("1", "1.1", "1"), before=state("1"))
    assert scripted_turn(made, 5) == scripted_turn(made, 5)
    assert len({scripted_turn(made, seed) for seed in range(40)}) >= 8


def test_scripted_wishes_say_their_text_or_topic():
    option = "a tram at its grand opening in 1911 with a band"
    for seed in range(30):
        clear = scripted_turn(context(state("1"), option=option), seed)
        assert "Text 1" in clear
        assert "a tram at its grand opening in 1911" in clear
        assert "dimension 1.1" in scripted_turn(context(state("1", "1.1", "1")), seed)
        assert "the dimension 1" in scripted_turn(context(state("1", "", "1")), seed)
        assert "all this" in scripted_turn(context(state()), seed)


def test_scripted_praise_comes_first_when_there_is_room():
    turn = scripted_turn(context(state("1 3", "", "3")), 1)
    assert turn.index("Text 3") < turn.index("Text 1")


# --- secrecy on the bundled tasks -------------------------------------------------------------


@cache
def bundled():
    return load_tasks(bundled_task_files(TRAINING_DOMAINS + TRANSFER_DOMAINS))


def random_states(task, seed, rules):
    """Yield (state before, state after, option) of random turns on one task."""
    choose = derived_random(seed, "states")
    at, thresholds = initial_state(task.tree, task.known), draw_thresholds(task.tree, seed)
    options = [a for n in task.tree for a in n.alternatives]
    for _ in range(6):
        labels = {
            n: NodeJudgement(choose.choice(list(Engagement)), near_misses=choose.randint(0, 4))
            for n in judgeable(task.tree, at, rules)
        }
        kind = choose.choice(list(ReplyKind))
        before = at
        at = transition(task.tree, at, Judgement("r", kind, labels), thresholds, rules).state
        if all_satisfied(task.tree, at):
            return
        yield before, at, choose.choice([None, *options])


CASES = st.tuples(
    st.integers(0, 70),
    st.integers(0, 2**32),
    st.builds(KernelRules, st.sampled_from(Gating), st.sampled_from(Focus)),
)


@settings(max_examples=150, deadline=None)
@given(CASES)
def test_undiscovered_text_is_never_in_context_prompt_or_script(case):
    index, seed, rules = case
    task = bundled()[index]
    history = [("user", task.opening), ("assistant", "Hm. Tell me.")]
    for before, at, option in random_states(task, seed, rules):
        made = user_intent_context(task.tree, at, task.opening, rules.focus, before, option)
        texts = {n.text for n in task.tree if at.is_discovered(n.id)}
        dimensions = {n.dimension for n in task.tree if at.awareness[n.id] is not U}
        assert {*made.achieved, *made.clear} <= texts
        assert {*made.fuzzy, *made.latent} <= dimensions
        assert (made.clear != ()) + (made.fuzzy != ()) + (made.latent != ()) <= 1

        prompt = "\n".join(m["content"] for m in user_prompt_messages(made, history))
        turn = scripted_turn(made, seed)
        for said in (prompt, turn):
            assert leaks(said, task.tree, at, made.speakable) == ()
            for hidden in task.tree:
                if not at.is_discovered(hidden.id):
                    assert hidden.text.rstrip(".").lower() not in said.lower()
        assert 3 <= len(turn.split()) <= 40
        assert clean_user_text(turn, 40) == turn


def test_no_sentence_frame_contains_a_bundled_cue():
    tables = ("ACHIEVED", "CLEAR", "CLEAR_AGAIN", "FUZZY", "LATENT", "OPTION")
    frames = "\n".join(frame for table in tables for frame in getattr(phrasing, table))
    for task in bundled():
        nothing_known = initial_state(task.tree, ())
        assert leaks(frames, task.tree, nothing_known) == ()


def test_the_property_above_covers_every_mode():
    modes = {
        user_intent_context(task.tree, at, task.opening, before=before).mode
        for seed, task in enumerate(bundled())
        for before, at, _ in random_states(task, seed, KernelRules())
    }
    assert modes == set(UserMode)
