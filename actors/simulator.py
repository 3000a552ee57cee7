"""The simulator actor: plays many discovery dialogues at once and delivers each one whole."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors.judge import RemoteJudge
from actors.rollout.pool import RolloutPool
from rl.chat.format import ChatFormat
from rl.data.tasks import Task
from rl.discovery.dialogue import SEAT, DiscoveryDialogue
from rl.discovery.rules import DialogueRules
from rl.episode.outcome import EpisodeEnd
from rl.episode.records import Episode, EpisodeId
from rl.episode.tokens import TokenTree
from rl.sampling import SamplingError


@dataclass(frozen=True)
class SimulatorOptions:
    """What a simulator needs beside the actors it talks to."""

    model: str
    enable_thinking: bool
    rules: DialogueRules
    tasks: tuple[Task, ...]
    concurrent_episodes: int
    episode_deadline_s: float
    judge_deadline_s: float


class SimulatorWorker:
    """Holds the intent-tree state of the dialogues that run on it.

    Invariant: an episode is returned whole, or as a named failure with what was played of it and
    nothing to train on; its random draws depend on its id only, so that playing it again gives the
    same dialogue.

    When it dies, its episodes die with it; Ray restarts it and the trainer issues them again.
    """

    def __init__(
        self, options: SimulatorOptions, rollouts: Sequence[Any], judges: Sequence[Any]
    ) -> None:
        from transformers import AutoTokenizer

        self._options = options
        self._tasks = {task.id: task for task in options.tasks}
        tokenizer = AutoTokenizer.from_pretrained(options.model)
        self._chat = ChatFormat.from_tokenizer(tokenizer, options.enable_thinking)
        self._sampler = RolloutPool(rollouts)
        self._judge = RemoteJudge(judges, options.judge_deadline_s)
        self._slots = asyncio.Semaphore(options.concurrent_episodes)

    async def ready(self) -> bool:
        """Return once dialogues can be played."""
        return True

    async def run_episode(self, episode: EpisodeId) -> Episode:
        """Play one episode; its failures come back as its end, not as exceptions.

        The deadline counts from when a slot is free. Raises ``ValueError`` for a task that this
        simulator does not have.
        """
        task = self._tasks.get(episode.task)
        if task is None:
            raise ValueError(
                f"episode {episode}: there is no task {episode.task!r}; allowed: one of the "
                f"{len(self._tasks)} tasks that the simulator was started with"
            )
        async with self._slots:
            dialogue = DiscoveryDialogue(
                task, episode, self._options.rules, self._chat, self._sampler, self._judge
            )
            try:
                return await asyncio.wait_for(dialogue.run(), self._options.episode_deadline_s)
            except TimeoutError:
                detail = f"not finished within {self._options.episode_deadline_s:g} s"
                return dialogue.stop(EpisodeEnd.DEADLINE, detail)
            except SamplingError as error:
                return dialogue.stop(EpisodeEnd.ROLLOUT_FAILED, str(error))


def failed_episode(episode: EpisodeId, domain: str, end: EpisodeEnd, detail: str) -> Episode:
    """Return the record of an episode of which nothing came back: its simulator died or raised."""
    return Episode(episode, SEAT, domain, end, TokenTree(), detail=detail)
