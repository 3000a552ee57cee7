"""Whole dialogues on the SmolLM2 tokenizer: a scripted sampler, a judge that reads words."""

import asyncio
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.config.schema import GrpoConfig, SamplingConfig
from rl.discovery.dialogue import DiscoveryDialogue
from rl.discovery.kernel import draw_thresholds, transition
from rl.discovery.reward import RewardRules
from rl.discovery.tree import initial_state
from rl.episode.jsonl import append_episode, read_episodes
from rl.episode.outcome import EpisodeEnd, FinishReason
from rl.episode.samples import flat_samples
from rl.grpo.batch import build_training_batch
from rl.judging.interface import AbstainReason, Abstention
from rl.sampling import SamplingError
from rl.seeding import derive_seed
from tests.rl.discovery.dialogue_doubles import (
    EPISODE,
    TASK,
    TREE,
    VERSION,
    ScriptedSampler,
    SeededSampler,
    WordJudge,
    chat_format,
    play,
    rules,
)


@pytest.fixture(scope="module")
def chat(tiny_dir):
    return chat_format(tiny_dir)


def test_the_records_of_a_dialogue(chat):
    """Two turns, three replies each, the best one committed; every number worked out by hand."""
    sampler = ScriptedSampler(chat, [["hello", "ask 1.1", "near 2"], ["draft 1.1", "hm", "ask 2"]])
    episode = play(chat, sampler, assistant_turns=2)

    assert (episode.end, episode.seat, episode.domain) == (
        EpisodeEnd.TURN_LIMIT,
        "assistant",
        "creative_writing",
    )
    first, second = episode.groups
    assert [group.id for group in episode.groups] == ["0:poem/0", "0:poem/1"]
    assert [candidate.text for candidate in first.candidates] == ["hello", "ask 1.1", "near 2"]
    assert [candidate.reward for candidate in first.candidates] == [0.0, 1.0, 0.0]
    assert first.committed == 1
    # 1.1 is discovered by now: drafting it satisfies, which the count of discoveries does not pay
    assert [candidate.reward for candidate in second.candidates] == [0.0, 0.0, 1.0]
    assert second.committed == 2

    assert [(turn.index, turn.role) for turn in episode.turns] == [
        (0, "user"),
        (1, "assistant"),
        (2, "user"),
        (3, "assistant"),
    ]
    assert [turn.text for turn in episode.turns][:2] == ["Write me a poem.", "ask 1.1"]
    assert [len(turn.state.discovered) for turn in episode.turns] == [1, 2, 2, 3]
    assert [turn.version for turn in episode.turns] == [None, VERSION, None, VERSION]
    assert episode.metrics == {"discover": 75.0, "satisfy": 0.0, "assistant_turns": 2.0}
    assert episode.counters == {"finish_stop": 6}
    assert episode.versions == (VERSION,)


def test_the_tree_of_a_dialogue(chat):
    sampler = ScriptedSampler(chat, [["hello", "ask 1.1"], ["near 2", "ask 2"]])
    episode = play(chat, sampler, assistant_turns=2, group_size=2)
    tree = episode.tokens
    for group, request in zip(episode.groups, sampler.of("assistant"), strict=True):
        for candidate in group.candidates:
            span = tree.spans[candidate.span]
            assert tree.prefix_ids(span.parent) == request.prompt_ids
            assert chat.decode_turn(span.ids) == candidate.text
            assert candidate.tokens == len(span.ids)
            assert (span.version, span.reward) == (candidate.version, candidate.reward)
    # The second turn hangs off the committed reply, and its prompt reads as the template has it.
    committed = episode.groups[0].candidates[1].span
    later = episode.groups[1].candidates[0].span
    assert committed in [span.id for span in tree.path(later)]
    assert episode.groups[0].candidates[0].span not in [span.id for span in tree.path(later)]
    messages = [{"role": turn.role, "content": turn.text} for turn in episode.turns[:3]]
    assert sampler.of("assistant")[1].prompt_ids == chat.messages_ids(messages, True)


@settings(max_examples=40)
@given(data=st.data(), turns=st.integers(1, 4), size=st.integers(2, 4), best=st.booleans())
def test_pitfall_10_masked_tokens_are_the_sampled_ones(chat, data, turns, size, best):
    """Whatever ids are sampled: one sample a candidate, its own tokens trained after its prompt."""
    tokens = st.one_of(
        st.lists(st.integers(0, len(chat.tokenizer) - 1), min_size=1, max_size=8),
        st.sampled_from(["hello", "ask 1.1", "near 2", "abstain", "draft 1 2"]),
    )
    groups = [
        data.draw(st.lists(tokens, min_size=size, max_size=size), label="group")
        for _ in range(turns)
    ]
    sampler = ScriptedSampler(chat, groups)
    episode = play(chat, sampler, assistant_turns=turns, group_size=size, commit_best=best)
    wanted = [
        (request.prompt_ids, completion)
        for request, group in zip(sampler.of("assistant"), groups, strict=False)
        for completion in map(sampler.completion, group)
    ]
    samples = flat_samples(episode.tokens)
    assert len(samples) == len(wanted) == len(sampler.of("assistant")) * size
    for sample, (prompt, completion) in zip(samples, wanted, strict=True):
        assert sample.ids == prompt + completion.ids
        assert sample.mask == (0,) * len(prompt) + (1,) * len(completion.ids)
        assert sample.logprobs == (0.0,) * len(prompt) + completion.logprobs
    assert episode.turns[-1].role == "assistant" or episode.end is EpisodeEnd.JUDGE_FAILED


def test_candidates_of_a_turn_share_state_and_thresholds(chat):
    """Near misses are luck against thresholds: equal replies must have equal luck."""
    groups = [["near 2 1.1", "near 2 1.1", "near 2 1.1"]] * 5
    judge = WordJudge()
    episode = play(chat, ScriptedSampler(chat, groups), judge, assistant_turns=5)
    for batch in judge.batches:
        assert len({(request.history, request.nodes) for request in batch}) == 1
    for group in episode.groups:
        assert len({candidate.reward for candidate in group.candidates}) == 1

    thresholds = draw_thresholds(TREE, derive_seed(5, "0:poem", "kernel"))
    state = initial_state(TREE, ("1",))
    expected = []
    for batch in judge.batches:
        state = transition(TREE, state, judge.verdict(batch[0]), thresholds, rules().kernel).state
        expected.append(state)
    assert [turn.state for turn in episode.turns if turn.role == "assistant"] == expected
    assert len(expected[-1].discovered) > 1


def test_the_judge_sees_the_nodes_that_can_move_and_the_history(chat):
    judge = WordJudge()
    play(chat, ScriptedSampler(chat, [["ask 1.1"] * 3, ["hm"] * 3]), judge, assistant_turns=2)
    first, second = judge.batches
    assert [question.id for question in first[0].nodes] == ["1", "1.1", "2"]
    assert [question.id for question in second[0].nodes] == ["1.1", "1.1.1", "2"]
    assert first[0].history == (("user", "Write me a poem."),)
    assert [role for role, _ in second[0].history] == ["user", "assistant", "user"]


def test_commit_best_takes_the_first_of_the_best(chat):
    sampler = ScriptedSampler(chat, [["hello", "ask 1.1", "ask 2"]])
    assert play(chat, sampler, assistant_turns=1).groups[0].committed == 1


def test_commit_sample_takes_any_usable_candidate_by_seed(chat):
    """Over 90 episodes each of the three scored ones is taken about 30 times, the fourth never."""
    chosen = Counter()
    for epoch in range(90):
        sampler = ScriptedSampler(chat, [["hello", "ask 1.1", "abstain", "ask 2"]])
        episode = play(
            chat,
            sampler,
            episode=replace(EPISODE, epoch=epoch),
            assistant_turns=1,
            group_size=4,
            commit_best=False,
        )
        chosen[episode.groups[0].committed] += 1
    assert set(chosen) == {0, 1, 3}
    assert min(chosen.values()) > 15


TEXTS = ["hello", "ask 1.1", "near 2", "draft 1.1 2", "near 1.1", "abstain", "tell me more"]


def test_draws_depend_on_ids_and_not_on_what_else_runs(chat):
    """Alone, or among others and in another order of arrival: the same episode."""
    episodes = [replace(EPISODE, epoch=epoch) for epoch in range(6)]
    changed = {"user_scripted": False, "commit_best": False}

    def dialogue(episode, sampler):
        return DiscoveryDialogue(TASK, episode, rules(**changed), chat, sampler, WordJudge()).run()

    async def together(order, sampler):
        return await asyncio.gather(*(dialogue(episode, sampler) for episode in order))

    alone = [asyncio.run(dialogue(one, SeededSampler(chat, TEXTS))) for one in episodes]
    for seed in range(2):
        chance = random.Random(seed)
        order = chance.sample(episodes, len(episodes))
        played = asyncio.run(together(order, SeededSampler(chat, TEXTS, chance)))
        assert {e.id.epoch: e for e in played} == {e.id.epoch: e for e in alone}
    assert len({tuple(turn.text for turn in episode.turns) for episode in alone}) > 1
    moved = asyncio.run(dialogue(replace(EPISODE, order=99), SeededSampler(chat, TEXTS)))
    assert moved.groups == alone[0].groups  # its place in the stream does not matter


def test_every_draw_has_a_seed_of_its_own(chat):
    def seeds(**changes):
        # Two user turns that leak, so that each is asked for again.
        users = ["cuecedar", "fine", "cuecedar", "fine"]
        sampler = ScriptedSampler(chat, [["hm"] * 3] * 3, users)
        play(chat, sampler, user_scripted=False, **changes)
        return [seed for request in sampler.requests for seed in request.seeds]

    drawn = seeds()
    assert len(drawn) == 3 * 3 + 2 * 2
    assert len(set(drawn)) == len(drawn)
    assert seeds() == drawn
    assert not set(seeds(run_seed=6)) & set(drawn)
    assert not set(seeds(episode=replace(EPISODE, epoch=1))) & set(drawn)


@pytest.mark.parametrize("best", [True, False])
def test_pitfall_16_abstentions_leave_their_group(chat, best):
    sampler = ScriptedSampler(chat, [["abstain", "hello", "ask 2"]])
    episode = play(chat, sampler, assistant_turns=1, commit_best=best)
    group = episode.groups[0]
    assert [candidate.reward for candidate in group.candidates] == [None, 0.0, 1.0]
    assert [candidate.usable for candidate in group.candidates] == [False, True, True]
    assert group.candidates[0].verdict == Abstention("words", AbstainReason.DEADLINE)
    assert group.candidates[0].reward_parts == {}
    assert episode.tokens.spans[group.candidates[0].span].reward is None
    assert group.committed in (1, 2)
    assert episode.counters["judge_abstained_deadline"] == 1
    batch = build_training_batch([episode], GrpoConfig())
    assert [sample.candidate for sample in batch.samples] == [1, 2]
    assert [round(sample.advantage, 3) for sample in batch.samples] == [-1.0, 1.0]


def test_pitfall_20_without_any_verdict_the_episode_is_a_named_failure(chat):
    sampler = ScriptedSampler(chat, [["ask 1.1", "hm", "hm"], ["abstain"] * 3])
    episode = play(chat, sampler)
    assert episode.end is EpisodeEnd.JUDGE_FAILED
    assert episode.end.is_failure
    assert episode.detail == "deadline: too slow"
    assert [group.committed for group in episode.groups] == [0, None]
    assert [turn.role for turn in episode.turns] == ["user", "assistant", "user"]
    assert build_training_batch([episode], GrpoConfig()).samples == ()


def test_empty_replies_cannot_be_committed(chat):
    sampler = ScriptedSampler(chat, [[(), "hello", ()]])
    episode = play(chat, sampler, assistant_turns=1)
    assert [candidate.usable for candidate in episode.groups[0].candidates] == [False, True, False]
    assert episode.groups[0].committed == 1
    nothing = play(chat, ScriptedSampler(chat, [[(), (), ()]]))
    assert (nothing.end, nothing.detail) == (EpisodeEnd.JUDGE_FAILED, "no candidate has tokens")


def test_pitfall_19_an_opening_without_room_for_a_reply_is_a_counted_failure(chat):
    sampler = ScriptedSampler(chat, [])
    prompt = len(chat.opening_ids(None, TASK.opening) + chat.assistant_open_ids)
    full = {"context_tokens": prompt + 15}
    episode = play(chat, sampler, **full)
    assert episode.end is EpisodeEnd.OPENING_TOO_LONG
    assert episode.end.is_failure
    assert episode.detail == (
        f"the opening of {prompt} tokens and assistant.max_tokens=16 do not fit into "
        f"model.context_tokens={prompt + 15}"
    )
    assert sampler.requests == []
    fits = play(chat, ScriptedSampler(chat, [["hm"] * 3]), context_tokens=prompt + 16)
    assert fits.end is EpisodeEnd.CONTEXT_FULL  # one reply, and no room for another


@pytest.mark.parametrize("scripted", [True, False])
def test_pitfall_12_a_full_context_ends_the_dialogue_between_whole_turns(chat, scripted):
    """Every turn has its own full cap; the dialogue ends before a turn that would not fit."""
    ends = Counter()
    for context in range(90, 260, 10):
        sampler = ScriptedSampler(chat, [["tell me more about it"] * 3] * 3, ["I like it so."] * 2)
        episode = play(chat, sampler, context_tokens=context, user_scripted=scripted)
        ends[episode.end] += 1
        for request in sampler.of("assistant"):
            assert request.max_tokens == 16
            assert len(request.prompt_ids) + request.max_tokens <= context
        assert [turn.role for turn in episode.turns] == ["user", "assistant"] * len(episode.groups)
        assert episode.end in (EpisodeEnd.CONTEXT_FULL, EpisodeEnd.TURN_LIMIT)
        assert (len(episode.groups) < 3) == (episode.end is EpisodeEnd.CONTEXT_FULL)
        assert not episode.end.is_failure
    assert set(ends) == {EpisodeEnd.CONTEXT_FULL, EpisodeEnd.TURN_LIMIT}


def test_pitfall_13_a_truncated_reply_is_known_as_one_for_good(chat):
    cut = chat.encode("ask 1.1")
    sampler = ScriptedSampler(chat, [[cut, "hm", "hm"], ["hm", "hm", "hm"]])
    episode = play(chat, sampler, assistant_turns=2)
    assert episode.groups[0].committed == 0
    assert [candidate.finish for candidate in episode.groups[0].candidates] == [
        FinishReason.LENGTH,
        FinishReason.STOP,
        FinishReason.STOP,
    ]
    finishes = [turn.finish for turn in episode.turns]
    assert finishes == [None, FinishReason.LENGTH, None, FinishReason.STOP]
    assert episode.counters["finish_length"] == 1
    # The history closes the cut turn; the end-of-turn token was not sampled and is not trained.
    end = chat.end_of_turn_ids[0]
    before = sampler.of("assistant")[0].prompt_ids
    assert sampler.of("assistant")[1].prompt_ids[: len(before + cut) + 1] == (*before, *cut, end)
    assert episode.tokens.spans[episode.groups[0].candidates[0].span].ids == cut


def test_a_satisfied_tree_ends_the_dialogue(chat):
    sampler = ScriptedSampler(chat, [["draft 1.1 2"] * 3, ["draft 1.1.1"] * 3])
    episode = play(chat, sampler, assistant_turns=5)
    assert episode.end is EpisodeEnd.ALL_SATISFIED
    assert [turn.role for turn in episode.turns] == ["user", "assistant"] * 2
    assert episode.metrics["discover"] == 100.0
    assert episode.metrics["satisfy"] == 75.0  # 1 was never drafted


def test_no_user_turn_follows_the_last_reply(chat):
    sampler = ScriptedSampler(chat, [["hm"] * 3] * 2, ["Go on."])
    episode = play(chat, sampler, assistant_turns=2, user_scripted=False)
    assert episode.turns[-1].role == "assistant"
    assert len(sampler.of("user")) == 1


def test_length_is_paid_by_the_sampled_tokens(chat):
    sampler = ScriptedSampler(chat, [["ask 2", "tell me more about it please", "hm"]])
    reward = RewardRules(length_penalty=0.1, free_tokens=4)
    episode = play(chat, sampler, assistant_turns=1, reward=reward)
    for candidate in episode.groups[0].candidates:
        excess = max(0, candidate.tokens - 4)
        assert candidate.reward_parts["length_penalty"] == pytest.approx(-0.1 * excess)
        assert candidate.reward == pytest.approx(sum(candidate.reward_parts.values()))
    assert episode.groups[0].candidates[1].tokens == 7  # six words and the end of the turn


def test_requests_carry_the_seat_the_caps_and_the_session(chat):
    sampler = ScriptedSampler(chat, [["hm"] * 3] * 2, ["Go on."])
    play(
        chat,
        sampler,
        assistant_turns=2,
        user_scripted=False,
        assistant=SamplingConfig(temperature=0.7, max_tokens=9),
        user=SamplingConfig(temperature=0.5, top_p=0.9, top_k=20, max_tokens=11),
        user_adapter="user@0.0",
    )
    assistant, user = sampler.of("assistant")[0], sampler.of("user")[0]
    assert (assistant.adapter, assistant.temperature, assistant.max_tokens) == ("latest", 0.7, 9)
    assert (assistant.top_p, assistant.top_k) == (1.0, -1)
    assert (user.adapter, user.temperature, user.max_tokens) == ("user@0.0", 0.5, 11)
    assert (user.top_p, user.top_k) == (0.9, 20)
    assert {request.stop_ids for request in sampler.requests} == {chat.end_of_turn_ids}
    assert {request.session for request in sampler.requests} == {"0:poem"}


def test_judgements_that_the_rules_ignore_are_counted(chat):
    episode = play(chat, ScriptedSampler(chat, [["ask 1.1.1"] * 3]), assistant_turns=1)
    assert episode.counters["judgements_ignored"] == 1  # of the committed reply: 1.1 came first
    assert episode.metrics["discover"] == 25.0


def test_the_system_prompt_comes_first(chat):
    sampler = ScriptedSampler(chat, [["hm"] * 3])
    play(chat, sampler, assistant_turns=1, system_prompt="Ask before you write.")
    assert "Ask before you write." in chat.tokenizer.decode(sampler.requests[0].prompt_ids)


def test_a_trained_seat_without_a_version_is_an_error(chat):
    with pytest.raises(ValueError, match="without an adapter version"):
        play(chat, ScriptedSampler(chat, [["hm"] * 3], version=None))


def test_what_the_sampler_raises_goes_through(chat):
    class Broken:
        async def sample(self, request):
            raise SamplingError("no worker is alive")

    with pytest.raises(SamplingError, match="no worker is alive"):
        play(chat, Broken())


def dialogue_of(sampler, chat, judge, **changes):
    return DiscoveryDialogue(TASK, EPISODE, rules(**changes), chat, sampler, judge)


class FailingSampler(ScriptedSampler):
    """Fails when the scripted groups are used up."""

    async def sample(self, request):
        if not self.groups and request.seat == "assistant":
            raise SamplingError("no worker is alive")
        return await super().sample(request)


def test_a_dialogue_that_fails_keeps_what_was_played(chat, tmp_path):
    dialogue = dialogue_of(
        FailingSampler(chat, [["hello", "ask 1.1", "near 2"]]), chat, WordJudge()
    )
    with pytest.raises(SamplingError):
        asyncio.run(dialogue.run())
    stopped = dialogue.stop(EpisodeEnd.ROLLOUT_FAILED, "no worker is alive")
    assert (stopped.end, stopped.detail) == (EpisodeEnd.ROLLOUT_FAILED, "no worker is alive")
    sampler = ScriptedSampler(chat, [["hello", "ask 1.1", "near 2"], ["hm"] * 3])
    whole = play(chat, sampler, assistant_turns=2)
    assert stopped.groups == whole.groups[:1]
    assert stopped.turns == whole.turns[:3]  # the user had spoken again
    assert stopped.counters == {"finish_stop": 3}
    assert stopped.metrics == {"discover": 50.0, "satisfy": 0.0, "assistant_turns": 1.0}
    assert [s.ids for s in stopped.tokens.sampled()] == [
        s.ids for s in list(whole.tokens.sampled())[:3]
    ]
    batch = build_training_batch([stopped], GrpoConfig())
    assert batch.samples == ()
    assert batch.diagnostics.generated_tokens == sum(c.tokens for c in stopped.groups[0].candidates)
    append_episode(tmp_path / "episodes.jsonl", stopped)
    assert list(read_episodes(tmp_path / "episodes.jsonl")) == [stopped]


def test_candidates_whose_judge_never_answered_are_on_record_without_a_reward(chat, tmp_path):
    class SilentJudge(WordJudge):
        """Answers the first group and no other."""

        async def judge(self, requests):
            if self.batches:
                waiting.set()
                await asyncio.sleep(60)
            return await super().judge(requests)

    sampler = ScriptedSampler(chat, [["ask 1.1", "hm", "hm"], [chat.encode("ask 2"), "hm", "hm"]])
    dialogue = dialogue_of(sampler, chat, SilentJudge())

    waiting = asyncio.Event()

    async def cut_off():
        running = asyncio.create_task(dialogue.run())
        await asyncio.wait_for(waiting.wait(), 20)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(cut_off())
    stopped = dialogue.stop(EpisodeEnd.DEADLINE, "not finished in time")
    judged, unjudged = stopped.groups
    assert judged.committed == 0
    assert (unjudged.id, unjudged.turn, unjudged.committed) == ("0:poem/1", 1, None)
    assert [c.text for c in unjudged.candidates] == ["ask 2", "hm", "hm"]
    assert {(c.reward, c.verdict, c.usable) for c in unjudged.candidates} == {(None, None, False)}
    assert stopped.counters == {"finish_stop": 5, "finish_length": 1}
    assert len(list(stopped.tokens.sampled())) == 6
    for group in stopped.groups:
        for candidate in group.candidates:
            assert stopped.tokens.spans[candidate.span].reward == candidate.reward
    assert stopped.versions == (VERSION,)
    append_episode(tmp_path / "episodes.jsonl", stopped)
    assert list(read_episodes(tmp_path / "episodes.jsonl")) == [stopped]


def test_a_dialogue_can_be_stopped_before_its_first_turn_but_not_as_a_success(chat):
    dialogue = dialogue_of(ScriptedSampler(chat, []), chat, WordJudge())
    stopped = dialogue.stop(EpisodeEnd.DEADLINE, "never begun")
    assert (stopped.groups, stopped.turns, stopped.tokens.spans) == ((), (), ())
    with pytest.raises(ValueError, match="turn_limit is no failure"):
        dialogue.stop(EpisodeEnd.TURN_LIMIT, "")


def test_a_group_that_only_length_tells_apart_is_known_as_one(chat):
    sampler = ScriptedSampler(chat, [["ask 2", "ask 2 and then some more words", "ask 2"]])
    reward = RewardRules(length_penalty=0.1, free_tokens=4)
    episode = play(chat, sampler, assistant_turns=1, reward=reward)
    diagnostics = build_training_batch([episode], GrpoConfig()).diagnostics
    assert diagnostics.groups_informative_by_length_only == diagnostics.groups_informative == 1
