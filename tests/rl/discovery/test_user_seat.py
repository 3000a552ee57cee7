"""The user's seat: what it is told, what is done with its answer, and what is counted."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.config.load import load_config
from rl.data.tasks import TRAINING_DOMAINS, bundled_task_files, load_tasks
from rl.discovery.kernel import Gating, KernelRules
from rl.discovery.progress import Focus
from rl.discovery.reward import DiscoveryReward, RewardRules
from rl.discovery.rules import DialogueRules
from rl.discovery.scripted_user import scripted_turn
from rl.discovery.tree import Awareness, TreeState, initial_state
from rl.discovery.user_seat import SpokenTurn, UserSeat
from rl.discovery.user_turn import user_intent_context
from rl.episode.outcome import FinishReason
from rl.episode.records import EpisodeId
from rl.seeding import derive_seed
from tests.rl.discovery.dialogue_doubles import (
    TASK,
    TREE,
    ScriptedSampler,
    SeededSampler,
    chat_format,
    play,
    rules,
)

HISTORY = [("user", TASK.opening), ("assistant", "hm")]
STATE = initial_state(TREE, ("1",))
LEAK = "I want cuebirch please."


@pytest.fixture(scope="module")
def chat(tiny_dir):
    return chat_format(tiny_dir)


def speak(chat, user_turns, state=STATE, **changes):
    """Let the user speak once; return the turn, the sampler and the counters."""
    sampler = ScriptedSampler(chat, [], user_turns)
    seat = UserSeat(rules(**({"user_scripted": False} | changes)), chat, sampler, "0:poem")
    context = user_intent_context(TREE, state, TASK.opening)
    said = asyncio.run(seat.speak(1, context, HISTORY, TREE, state))
    return said, sampler, dict(seat.counters)


def scripted(state=STATE):
    seed = derive_seed(5, "0:poem", "scripted", 1, 0)
    return SpokenTurn(scripted_turn(user_intent_context(TREE, state, TASK.opening), seed))


def tokens(chat, text):
    return len(chat.encode(text)) + 1  # and the end of the turn


def test_an_answer_is_cleaned_and_taken(chat):
    said, _, counters = speak(chat, ['User: "I like the sea."'])
    assert said == SpokenTurn("I like the sea.", None, FinishReason.STOP)
    assert counters == {
        "user_turns_generated": 1,
        "user_finish_stop": 1,
        "user_tokens": tokens(chat, 'User: "I like the sea."'),
    }


def test_a_leak_is_asked_for_again(chat):
    said, sampler, counters = speak(chat, [LEAK, "Not that."])
    assert said.text == "Not that."
    first, second = sampler.requests
    assert first.prompt_ids == second.prompt_ids
    assert first.seeds != second.seeds
    assert counters == {
        "user_turns_generated": 2,
        "user_finish_stop": 2,
        "user_tokens": tokens(chat, LEAK) + tokens(chat, "Not that."),
        "user_leaks": 1,
    }


def test_a_second_leak_gives_way_to_the_script(chat):
    said, _, counters = speak(chat, [LEAK, LEAK])
    assert said == scripted()
    assert (said.version, said.finish) == (None, None)
    assert (counters["user_leaks"], counters["user_scripted_instead"]) == (2, 1)


def test_an_empty_answer_counts_apart_from_a_leak(chat):
    said, _, counters = speak(chat, ["...", LEAK])
    assert said == scripted()
    assert (counters["user_turns_empty"], counters["user_leaks"]) == (1, 1)


@pytest.mark.parametrize("retries", [0, 3])
def test_retries_are_bounded(chat, retries):
    _, sampler, counters = speak(chat, [LEAK] * 9, user_leak_retries=retries)
    assert len(sampler.requests) == counters["user_turns_generated"] == retries + 1


def test_a_text_that_the_user_knows_is_no_leak(chat):
    aware = TreeState({**STATE.awareness, "1.1": Awareness.DISCOVERED})
    assert speak(chat, [LEAK], aware)[0].text == LEAK


def test_the_scripted_user_asks_no_model(chat):
    said, sampler, counters = speak(chat, [], user_scripted=True)
    assert (said, sampler.requests, counters) == (scripted(), [], {})


def test_pitfall_19_a_prompt_too_long_for_the_user_is_counted_and_scripted(chat):
    prompt = len(speak(chat, ["Yes."])[1].requests[0].prompt_ids)
    _, sampler, _ = speak(chat, ["Yes."], context_tokens=prompt + 24)
    assert len(sampler.requests) == 1
    said, sampler, counters = speak(chat, ["Yes."], context_tokens=prompt + 23)
    assert (said, sampler.requests) == (scripted(), [])
    assert counters == {"user_prompt_too_long": 1, "user_scripted_instead": 1}


def test_pitfall_13_a_truncated_user_turn_is_known_as_one(chat):
    sampler = ScriptedSampler(chat, [["hm"] * 3] * 2, [chat.encode("I like")], user_version="u@0.0")
    episode = play(chat, sampler, assistant_turns=2, user_scripted=False)
    turn = episode.turns[2]
    assert (turn.text, turn.version, turn.finish) == ("I like", "u@0.0", FinishReason.LENGTH)
    assert episode.counters["user_finish_length"] == 1


def test_the_preferred_option_reaches_the_user_and_nothing_else_of_the_verdict(chat):
    sampler = ScriptedSampler(chat, [["offer first second"] * 3, ["hm"] * 3], ["The first."])
    play(chat, sampler, assistant_turns=2, user_scripted=False)
    prompt = chat.tokenizer.decode(sampler.of("user")[0].prompt_ids)
    assert "closest option is: first." in prompt


# --- secrecy ----------------------------------------------------------------------------------

REPLIES = ("hm", "near 2", "near 1.1 2", "ask 1.1", "draft 1", "near 1.1.1", "ask 1.1.1")


def prompts_with_states(episode, sampler):
    """Pair each prompt of the user's seat, as text, with the state that it was made from."""
    prompts = [sampler.chat.tokenizer.decode(r.prompt_ids) for r in sampler.of("user")]
    states = [turn.state for turn in episode.turns if turn.role == "user"][1:]
    return list(zip((prompt.casefold() for prompt in prompts), states, strict=True))


def assert_secret(prompt, state):
    for node in TREE:
        if not state.is_discovered(node.id):
            kept = (node.text.rstrip("."), *node.cues, *node.alternatives)
            assert not [text for text in kept if text in prompt]
            assert node.id in state.emerging or node.dimension not in prompt


def test_an_emerging_intent_reaches_the_prompt_by_its_dimension_alone(chat):
    hinted = 0
    for seed in range(12):
        sampler = SeededSampler(chat, ["near 2"])
        episode = play(
            chat,
            sampler,
            task=replace(TASK, known=()),
            run_seed=seed,
            assistant_turns=4,
            user_scripted=False,
        )
        for prompt, state in prompts_with_states(episode, sampler):
            assert_secret(prompt, state)
            if "2" in state.emerging:
                assert "dimensiondogwood" in prompt
                hinted += 1
    assert hinted > 5


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.sampled_from(Gating),
    st.sampled_from(Focus),
    st.sampled_from([("1",), ()]),
    st.lists(st.sampled_from(REPLIES), min_size=2, max_size=7),
)
def test_no_prompt_of_the_user_holds_what_is_not_discovered(
    chat, seed, gating, focus, known, replies
):
    """Each node's texts are words of their own: one found in a prompt came from its node."""
    sampler = SeededSampler(chat, replies)
    episode = play(
        chat,
        sampler,
        task=replace(TASK, known=known),
        run_seed=seed,
        assistant_turns=5,
        commit_best=False,
        user_scripted=False,
        kernel=KernelRules(gating, focus),
    )
    for prompt, state in prompts_with_states(episode, sampler):
        assert_secret(prompt, state)


@pytest.mark.parametrize("domain", TRAINING_DOMAINS)
def test_no_prompt_holds_an_undiscovered_intent_of_a_bundled_task(chat, domain):
    seen = 0
    for task in load_tasks(bundled_task_files([domain]))[:8]:
        nodes = list(task.tree.nodes)
        replies = [f"{verb} {id_}" for verb in ("near", "ask", "draft") for id_ in nodes]
        sampler = SeededSampler(chat, replies)
        episode = play(
            chat,
            sampler,
            task=task,
            episode=EpisodeId(0, task.id, 0),
            assistant_turns=5,
            user_scripted=False,
        )
        for prompt, state in prompts_with_states(episode, sampler):
            hidden = [node for node in task.tree if not state.is_discovered(node.id)]
            assert not [n.text for n in hidden if n.text.rstrip(".").casefold() in prompt]
            seen += len(hidden)
    assert seen > 100


# --- rules ------------------------------------------------------------------------------------


def test_rules_come_from_the_configuration():
    config = load_config(
        [
            "run.seed=3",
            "model.system_prompt=Ask.",
            "model.context_tokens=900",
            "discovery.assistant_turns=4",
            "grpo.group_size=6",
            "discovery.commit=best",
            "discovery.gating=cascade",
            "discovery.focus=single_root",
            "discovery.tangential_probability=0.5",
            "discovery.reward=half_credit",
            "discovery.length_penalty=0.01",
            "discovery.length_free_tokens=30",
            "discovery.user_turn=scripted",
            "discovery.user_max_words=25",
            "discovery.user_leak_retries=2",
            "assistant.max_tokens=31",
            "user.max_tokens=32",
        ]
    )
    made = DialogueRules.from_config(config, "user@0.0")
    assert (made.run_seed, made.system_prompt, made.context_tokens) == (3, "Ask.", 900)
    assert (made.assistant_turns, made.group_size, made.commit_best) == (4, 6, True)
    assert made.kernel == KernelRules(Gating.CASCADE, Focus.SINGLE_ROOT, 0.5)
    assert made.reward == RewardRules(DiscoveryReward.HALF_CREDIT, 0.01, 30)
    assert (made.assistant.max_tokens, made.user.max_tokens) == (31, 32)
    assert (made.user_scripted, made.user_max_words, made.user_leak_retries) == (True, 25, 2)
    assert made.user_adapter == "user@0.0"
    plain = DialogueRules.from_config(load_config([]))
    assert (plain.commit_best, plain.user_scripted, plain.user_adapter) == (False, False, None)
