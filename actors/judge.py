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
    again, then abstains. Nothing is lost but time: judging is a pure function.
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
            while not all(future.done() for future in futures):
                await self._judge_some()
        return [future.result() for future in futures]

    async def ready(self) -> str:
        """Return the judge's name once it can judge."""
        return self._judge.name

    async def _judge_some(self) -> None:
        """Answer the oldest requests of the queue, whatever the judge does with them."""
        batch, self._queue = self._queue[: self._max_batch], self._queue[self._max_batch :]
        requests = [request for request, _ in batch]
        work = asyncio.create_task(asyncio.to_thread(self._judge.judge, requests))
        await asyncio.wait([work])
        error = work.exception()
        if error is None and len(work.result()) != len(batch):
            error = ValueError(f"{len(work.result())} verdicts for {len(batch)} requests")
        if error is not None:
            detail = f"{type(error).__name__}: {error}"
            abstention = Abstention(self._judge.name, AbstainReason.BACKEND_ERROR, detail)
        for index, (_, future) in enumerate(batch):
            future.set_result(work.result()[index] if error is None else abstention)


class RemoteJudge:
    """A dialogue's way to the judges: spreads requests, abstains when no answer comes in time.

    A worker that dies is not the end: the next one is asked, all of them once and at least two
    (a single one may have been restarted), within the one deadline.
    """

    def __init__(self, workers: Sequence[Any], deadline_s: float) -> None:
        self._workers = list(workers)
        self._deadline_s = deadline_s
        self._next = 0

    async def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict for each request, in order; without an answer all abstain."""
        try:
            return await asyncio.wait_for(self._ask(tuple(requests)), self._deadline_s)
        except TimeoutError:
            detail = f"no verdict within {self._deadline_s:g} s"
            return [Abstention("judge", AbstainReason.DEADLINE, detail)] * len(requests)

    async def _ask(self, requests: tuple[JudgeRequest, ...]) -> list[Verdict]:
        from ray.exceptions import RayError

        detail = ""
        for _ in range(max(2, len(self._workers))):
            worker = self._workers[self._next % len(self._workers)]
            self._next += 1
            try:
                return list(await worker.judge.remote(requests))
            except RayError as error:
                detail = " ".join(str(error).split()) or type(error).__name__
        return [Abstention("judge", AbstainReason.BACKEND_ERROR, detail)] * len(requests)


def make_judge(config: JudgeConfig) -> Judge:
    """Return the judge that ``config`` names, behind a cache unless it is to have no entries."""
    from rl.judging.cache import CachedJudge

    judge = _backend(config.backend)
    return CachedJudge(judge, config.cache_entries) if config.cache_entries else judge


def _backend(name: str) -> Judge:
    if name == "cues":
        from rl.judging.cues import CueJudge

        return CueJudge()
    from rl.judging.embedded import EmbeddedJudge

    return EmbeddedJudge()
