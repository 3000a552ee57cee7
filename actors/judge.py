"""The judge actor: batches what many dialogues ask at once, and never lets one reply stop them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from rl.config.schema import JudgeConfig
from rl.judging.interface import AbstainReason, Abstention, Judge, JudgeRequest, Verdict

# How long the first request waits for others to share its batch.
BATCH_WINDOW_S = 0.005


class JudgeWorker:
    """Judges replies in batches, with a cache.

    Invariant: every request gets a verdict, in order; what cannot be judged is an abstention.

    When it dies, Ray restarts it with an empty cache; calls in flight fail and the caller asks
    once more, then abstains. Nothing is lost but time: judging is a pure function.
    """

    def __init__(self, config: JudgeConfig) -> None:
        import torch

        torch.set_num_threads(max(1, config.threads))
        self._max_batch = config.max_batch
        self._judge = make_judge(config)
        self._queue: list[tuple[JudgeRequest, asyncio.Future[Verdict]]] = []
        self._busy = asyncio.Lock()

    async def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict for each request, in order."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Verdict]] = [loop.create_future() for _ in requests]
        self._queue.extend(zip(requests, futures, strict=True))
        await asyncio.sleep(BATCH_WINDOW_S)
        async with self._busy:
            while self._queue and not all(future.done() for future in futures):
                await self._judge_some()
        return [await future for future in futures]

    async def ready(self) -> str:
        """Return the judge's name once it can judge."""
        return self._judge.name

    async def _judge_some(self) -> None:
        batch, self._queue = self._queue[: self._max_batch], self._queue[self._max_batch :]
        try:
            verdicts = await asyncio.to_thread(self._judge.judge, [request for request, _ in batch])
        except (RuntimeError, ValueError) as error:
            abstention = Abstention(self._judge.name, AbstainReason.BACKEND_ERROR, str(error))
            verdicts = [abstention] * len(batch)
        for (_, future), verdict in zip(batch, verdicts, strict=True):
            if not future.done():
                future.set_result(verdict)


class RemoteJudge:
    """A dialogue's way to the judges: spreads requests, abstains when no answer comes in time."""

    def __init__(self, workers: Sequence[Any], deadline_s: float, attempts: int = 2) -> None:
        self._workers = list(workers)
        self._deadline_s = deadline_s
        self._attempts = attempts
        self._next = 0

    async def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict for each request, in order; all abstain after the last attempt."""
        from ray.exceptions import RayActorError

        failure = Abstention("judge", AbstainReason.BACKEND_ERROR, "no attempt was made")
        for _ in range(self._attempts):
            worker = self._workers[self._next % len(self._workers)]
            self._next += 1
            try:
                call = worker.judge.remote(tuple(requests))
                return list(await asyncio.wait_for(call, self._deadline_s))
            except TimeoutError:
                detail = f"no verdict within {self._deadline_s} s"
                failure = Abstention("judge", AbstainReason.DEADLINE, detail)
            except RayActorError as error:
                failure = Abstention("judge", AbstainReason.BACKEND_ERROR, str(error))
        return [failure] * len(requests)


def make_judge(config: JudgeConfig) -> Judge:
    """Return the judge that ``config`` names, behind a cache."""
    from rl.judging.cache import CachedJudge

    if config.backend == "cues":
        from rl.judging.cues import CueJudge

        return CachedJudge(CueJudge(), config.cache_entries)
    from rl.judging.embedded import EmbeddedJudge

    return CachedJudge(EmbeddedJudge(), config.cache_entries)
