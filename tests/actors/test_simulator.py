"""The simulator actor without Ray: its deadline, its failures, and how many it plays at once."""

import asyncio
from dataclasses import replace

import pytest

from actors.simulator import SimulatorOptions, SimulatorWorker, failed_episode
from rl.episode.jsonl import append_episode, read_episodes
from rl.episode.outcome import EpisodeEnd
from rl.sampling import SamplingError
from tests.rl.discovery.dialogue_doubles import (
    EPISODE,
    TASK,
    ScriptedSampler,
    SeededSampler,
    WordJudge,
    chat_format,
    rules,
)

TEXTS = ["hello", "ask 1.1", "near 2", "draft 1.1 2", "tell me more"]


class Handle:
    """Stands for an actor handle: ``handle.sample.remote(x)`` awaits ``call(x)``."""

    def __init__(self, call):
        self.sample = self.judge = self
        self.remote = call


def simulator(folder, sample, judge=None, **changes):
    options = {
        "model": str(folder),
        "enable_thinking": False,
        "rules": rules(),
        "tasks": (TASK, replace(TASK, id="other", domain="svg")),
        "concurrent_episodes": 2,
        "episode_deadline_s": 30.0,
        "judge_deadline_s": 30.0,
    }
    judges = [Handle((judge or WordJudge()).judge)]
    return SimulatorWorker(SimulatorOptions(**(options | changes)), [Handle(sample)], judges)


@pytest.fixture(scope="module")
def chat(tiny_dir):
    return chat_format(tiny_dir)


def test_an_episode_is_played_to_its_end(chat, tiny_dir):
    made = simulator(tiny_dir, SeededSampler(chat, TEXTS).sample)
    episode = asyncio.run(made.run_episode(replace(EPISODE, task="other")))
    assert (episode.id.task, episode.domain) == ("other", "svg")
    assert episode.end is EpisodeEnd.TURN_LIMIT
    assert len(episode.groups) == 3
    assert episode.detail == ""


def test_pitfall_18_an_episode_over_its_deadline_is_a_named_failure(chat, tiny_dir, tmp_path):
    """And what was played until then stays."""
    sampler = ScriptedSampler(chat, [["ask 1.1", "hm", "hm"]])

    async def hangs_in_the_second_turn(request):
        if not sampler.groups:
            await asyncio.sleep(60)
        return await sampler.sample(request)

    made = simulator(tiny_dir, hangs_in_the_second_turn, episode_deadline_s=1.0)
    episode = asyncio.run(asyncio.wait_for(made.run_episode(EPISODE), 10))
    assert (episode.id, episode.domain) == (EPISODE, TASK.domain)
    assert (episode.end, episode.detail) == (EpisodeEnd.DEADLINE, "not finished within 1 s")
    assert [[c.reward for c in group.candidates] for group in episode.groups] == [[1.0, 0.0, 0.0]]
    assert [turn.role for turn in episode.turns] == ["user", "assistant", "user"]
    assert episode.counters == {"finish_stop": 3}
    append_episode(tmp_path / "episodes.jsonl", episode)
    assert list(read_episodes(tmp_path / "episodes.jsonl")) == [episode]


def test_pitfall_18_a_failed_episode_returns_its_slot(chat, tiny_dir):
    sampler = SeededSampler(chat, TEXTS)
    asked = []

    async def hangs_first(request):
        asked.append(request.session)
        if len(asked) == 1:
            await asyncio.sleep(60)
        return await sampler.sample(request)

    made = simulator(tiny_dir, hangs_first, concurrent_episodes=1, episode_deadline_s=1.0)

    async def two():
        return await asyncio.gather(
            made.run_episode(EPISODE), made.run_episode(replace(EPISODE, epoch=1))
        )

    first, second = asyncio.run(asyncio.wait_for(two(), 20))
    assert first.end is EpisodeEnd.DEADLINE
    assert second.end is EpisodeEnd.TURN_LIMIT  # its deadline began when it had the slot


@pytest.mark.parametrize("whole_turns", [0, 2])
def test_a_request_that_no_worker_can_answer_is_a_named_failure(chat, tiny_dir, whole_turns):
    sampler = ScriptedSampler(chat, [["hm", "ask 2", "hm"]] * whole_turns)

    async def fails(request):
        if not sampler.groups:
            raise SamplingError("prompt of 900 tokens leaves 10 of the 48 wanted")
        return await sampler.sample(request)

    episode = asyncio.run(simulator(tiny_dir, fails).run_episode(EPISODE))
    assert episode.end is EpisodeEnd.ROLLOUT_FAILED
    assert episode.detail == "prompt of 900 tokens leaves 10 of the 48 wanted"
    assert len(episode.groups) == whole_turns
    assert len(list(episode.tokens.sampled())) == 3 * whole_turns


@pytest.mark.parametrize("slots", [1, 3])
def test_at_most_so_many_dialogues_are_played_at_once(chat, tiny_dir, slots):
    sampler = SeededSampler(chat, TEXTS)
    begun, ended, most = set(), set(), []

    async def watched(request):
        begun.add(request.session)
        most.append(len(begun - ended))
        return await sampler.sample(request)

    made = simulator(tiny_dir, watched, concurrent_episodes=slots)

    async def play(epoch):
        episode = await made.run_episode(replace(EPISODE, epoch=epoch))
        ended.add(str(episode.id))
        return episode

    async def play_all():
        return await asyncio.gather(*(play(epoch) for epoch in range(8)))

    episodes = asyncio.run(asyncio.wait_for(play_all(), 30))
    assert max(most) == slots
    assert [episode.id.epoch for episode in episodes] == list(range(8))
    assert all(not episode.end.is_failure for episode in episodes)


def test_an_unknown_task_is_named(tiny_dir, chat):
    made = simulator(tiny_dir, SeededSampler(chat, TEXTS).sample)
    with pytest.raises(
        ValueError, match=r"^episode 0:nowhere: there is no task 'nowhere'; allowed"
    ) as e:
        asyncio.run(made.run_episode(replace(EPISODE, task="nowhere")))
    assert "one of the 2 tasks" in str(e.value)


def test_an_episode_of_which_nothing_came_back():
    made = failed_episode(EPISODE, "svg", EpisodeEnd.ACTOR_DIED, "killed")
    assert (made.id, made.domain, made.end, made.detail) == (
        EPISODE,
        "svg",
        EpisodeEnd.ACTOR_DIED,
        "killed",
    )
    assert (made.groups, made.turns, made.tokens.spans) == ((), (), ())
