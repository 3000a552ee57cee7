"""The judge actor: batches what many dialogues ask at once, and never lets one reply stop them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from rl.config.schema import JudgeConfig
from rl.judging.backends import make_judge
from rl.judging.interface import AbstainReason, Abstention, JudgeRequest, Verdict

# How long the first request waits for others to share its batch.
BATCH_WINDOW_S = 0.005

# A judge that died is back after some seconds: a process start and the loading of an encoder.
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 4.0


class JudgeWorker:
    """Judges replies in batches, with a cache.

    Invariant: every request gets a verdict, in order; what cannot be judged is an abstention.

    When it dies, Ray restarts it with an empty cache and repeats the calls that it had taken in;
    :class:`RemoteJudge` asks again where Ray does not. Nothing is lost but time, since judging is
    a pure function.
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

    A worker that does not answer is not the end: the next one is asked, and when all have failed
    they are asked again after a pause that grows, since Ray may be restarting them; the one
    deadline covers it all. A worker that is dead for good is not asked any more.
    """

    def __init__(self, workers: Sequence[Any], deadline_s: float) -> None:
        self._workers = list(workers)
        self._deadline_s = deadline_s
        self._next = 0
        self._dead: dict[int, str] = {}  # with the reason

    async def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict for each request, in order; without an answer all abstain."""
        failures: list[str] = []
        try:
            async with asyncio.timeout(self._deadline_s):
                verdicts = await self._ask(tuple(requests), failures)
        except TimeoutError:
            last = f"; the last failure: {failures[-1]}" if failures else ""
            detail = f"no verdict within {self._deadline_s:g} s{last}"
            return [Abstention("judge", AbstainReason.DEADLINE, detail)] * len(requests)
        if verdicts is None:
            detail = (failures or list(self._dead.values()) or ["there is no judge"])[-1]
            return [Abstention("judge", AbstainReason.BACKEND_ERROR, detail)] * len(requests)
        return verdicts

    async def _ask(
        self, requests: tuple[JudgeRequest, ...], failures: list[str]
    ) -> list[Verdict] | None:
        """Ask until an answer comes; ``None`` when no worker is left that could give one."""
        from ray.exceptions import ActorDiedError, RayError, RayTaskError

        left = {index for index in range(len(self._workers)) if index not in self._dead}
        pause = _FIRST_PAUSE_S
        while left:
            for index in self._in_turn(left):
                try:
                    return list(await self._workers[index].judge.remote(requests))
                except ActorDiedError as error:
                    failures.append(_one_line(error))
                    self._dead[index] = failures[-1]
                    left.remove(index)
                except RayTaskError as error:  # the judge raised, and would raise again
                    failures.append(_one_line(error))
                    left.remove(index)
                except RayError as error:
                    failures.append(_one_line(error))
            if left:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                left -= self._dead.keys()
        return None

    def _in_turn(self, left: set[int]) -> list[int]:
        """Return the workers in ``left``, beginning with the one after the last call's first."""
        first = self._next
        self._next = (first + 1) % len(self._workers)
        return sorted(left, key=lambda index: (index - first) % len(self._workers))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
