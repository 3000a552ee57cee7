"""Doubles of the actors around the training loop: real Ray actors that do what a test scripts.

They stand in for what cannot be made to fail on demand. Real simulators, engines and learners are
tested on their own and in whole jobs.
"""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actors.learner.group import TrainReport
from actors.rollout.worker import Arrival
from rl.episode.outcome import EpisodeEnd, FinishReason
from rl.episode.records import Candidate, Episode, EpisodeId, Group
from rl.episode.tokens import Span, TokenTree
from rl.policy.adapter import AdapterFiles

BASE = (-1.0, -2.0, -3.0)
PROBE_IDS = (5, 6, 7, 8)


def adapter(version: str, logprobs: Sequence[float]) -> AdapterFiles:
    """An adapter whose weights are the log-probs that the probe shall have under it."""
    return AdapterFiles.of(version, b"{}", json.dumps(list(logprobs)).encode())


def played(episode: EpisodeId, version: str, end: EpisodeEnd = EpisodeEnd.TURN_LIMIT) -> Episode:
    """An episode of one informative group: two replies of two tokens, rewards 1 and 0."""
    spans = [Span(0, None, (1, 2))]
    candidates = []
    for index, reward in enumerate((1.0, 0.0)):
        spans.append(Span(index + 1, 0, (3, 4), True, (-0.5, -0.5), version, reward))
        parts = {"discovery": reward, "length_penalty": 0.0}
        candidates.append(Candidate(index + 1, "x", 2, FinishReason.STOP, version, reward, parts))
    group = Group(f"{episode}/0", 0, tuple(candidates), 0)
    return Episode(episode, "assistant", "svg", end, TokenTree(tuple(spans)), (group,))


class ScriptedActor:
    """A rollout worker, a simulator and a learner rank in one process.

    ``script`` says what happens to the episode of an order: ``fail``, ``raise``, ``hang`` or
    ``elsewhere`` (written by another lineage). ``fault`` is the rollout worker's.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self, script: Mapping[int, str] | None = None, fault: str = "") -> None:
        self._script = dict(script or {})
        self._fault = fault
        self._held: dict[str, tuple[float, ...]] = {}
        self._served: tuple[float, ...] = BASE
        self._latest = ""

    async def ready(self) -> bool:
        return True

    # --- as a rollout worker

    async def load_adapter(self, files: AdapterFiles, probe_ids: Sequence[int]) -> Arrival:
        assert tuple(probe_ids) == PROBE_IDS
        if not (self._fault == "stuck" and self._held):
            self._served = tuple(json.loads(files.weights))
        if self._fault == "deaf":
            self._served = BASE
        self._held[files.version] = self._served
        self._latest = files.version
        digest = "0" * 64 if self._fault == "other files" else files.digest
        return Arrival(files.version, digest, self._served)

    async def probe(self, version: str | None, ids: Sequence[int]) -> tuple[float, ...]:
        return BASE if version is None else self._held[version]

    async def retire(self, keep: Sequence[str]) -> None:
        self._held = {name: held for name, held in self._held.items() if name in keep}

    async def versions(self) -> tuple[str, ...]:
        return tuple(self._held)

    async def counters(self) -> dict[str, int]:
        return {"generated_tokens": 7}

    async def latest(self) -> str:
        return self._latest

    # --- as a simulator: ``worker`` is the one that it samples from

    async def set_worker(self, worker: Any) -> None:
        self._worker = worker

    async def run_episode(self, episode: EpisodeId) -> Episode:
        action = self._script.get(episode.order, "")
        if action == "raise":
            raise ValueError(f"nothing can be done with {episode.order}")
        if action == "hang":
            await asyncio.sleep(600)
        if action == "fail":
            return played(episode, "assistant@0.0", EpisodeEnd.DEADLINE)
        if action == "elsewhere":
            return played(episode, "assistant@9.0")
        return played(episode, await self._worker.latest.remote())

    # --- as a learner rank

    async def train(self, action: str) -> str:
        if action == "raise":
            raise ValueError("the gradient is not finite")
        if action == "hang":
            await asyncio.sleep(600)
        return action


class MortalSimulator:
    """A simulator whose process ends while it plays ``order``; after ``lives`` deaths no more."""

    def __init__(self, worker: Any, deaths: str, order: int, lives: int) -> None:
        self._worker, self._deaths = worker, Path(deaths)
        self._order, self._lives = order, lives

    async def ready(self) -> bool:
        return True

    async def run_episode(self, episode: EpisodeId) -> Episode:
        died = len(list(self._deaths.iterdir()))
        if episode.order == self._order and died < self._lives:
            (self._deaths / str(died)).touch()
            os._exit(1)
        return played(episode, await self._worker.latest.remote())


@dataclass
class ScriptedLearner:
    """The learner group: ``moves`` is how far each training step moves the probe's log-probs."""

    ranks: Sequence[Any] = ()
    actions: Sequence[str] = ("",)  # of each rank, in every step
    moves: float = 0.1
    mismatch: float | None = 0.0
    canary_moves: float = 1.0
    trained: list[tuple[int, str]] = field(default_factory=list)
    logprobs: tuple[float, ...] = BASE

    def canary(self, version: str, seed: int, ids: Sequence[int]) -> tuple[AdapterFiles, Any]:
        moved = tuple(value - self.canary_moves for value in BASE)
        return adapter(version, moved), moved

    def export(self, version: str, ids: Sequence[int]) -> tuple[AdapterFiles, Any]:
        return adapter(version, self.logprobs), self.logprobs

    def train(self, batch: Any, updates: int, version: str) -> list[Any]:
        self.trained.append((updates, version))
        self.logprobs = tuple(value - self.moves for value in self.logprobs)
        return [rank.train.remote(a) for rank, a in zip(self.ranks, self.actions, strict=True)]

    def report(self, results: Sequence[Any]) -> TrainReport:
        metrics = {"loss": 0.5, "mismatch_kl": 0.9, "mismatch_kl_current": self.mismatch}
        return TrainReport(metrics, 1.0, 1e-3)

    def states(self) -> list[dict[str, bytes]]:
        return [{"state": str(len(self.trained)).encode()}]
