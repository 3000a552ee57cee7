"""The pool of rollout workers as one sampler: a dialogue stays on one worker while it lives."""

import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any

from rl.sampling import SampleRequest, SampleResult, SamplingError

_REMEMBERED = 4096
# How long a worker that failed is asked last, so that a dead one is not the least busy of all.
_AVOIDED_S = 60.0


class RolloutPool:
    """Spreads requests over workers; those of one session go where their prefix is cached.

    Invariant: a request is answered by a worker that lives if there is one; asking another is
    safe, since a completion depends on its seed and its prefix and not on who samples it.
    """

    def __init__(self, workers: Sequence[Any]) -> None:
        self._workers = list(workers)
        self._load: Counter[int] = Counter()  # completions under way
        self._sessions: OrderedDict[str, int] = OrderedDict()
        self._failed_at: dict[int, float] = {}

    async def sample(self, request: SampleRequest) -> SampleResult:
        """Sample on the session's worker; on another one if it died.

        Raises:
            SamplingError: the request itself cannot be answered, or no worker answers.
        """
        from ray.exceptions import RayError

        tried: set[int] = set()
        failure = "there are none"
        while len(tried) < len(self._workers):
            index = self._pick(request.session, tried)
            self._load[index] += len(request.seeds)
            try:
                return await self._workers[index].sample.remote(request)
            except SamplingError as error:
                # Ray's copy of the worker's error holds a whole traceback
                raise SamplingError(str(getattr(error, "cause", error))) from error
            except RayError as error:
                failure = _last_line(error)
                tried.add(index)
                self._failed_at[index] = time.monotonic()
            finally:
                self._load[index] -= len(request.seeds)
        raise SamplingError(
            f"none of {len(self._workers)} rollout workers answers; the last failure: {failure}"
        )

    def _pick(self, session: str, tried: set[int]) -> int:
        index = self._sessions.get(session)
        if index is None or index in tried:
            free = [i for i in range(len(self._workers)) if i not in tried]
            index = min(free, key=lambda i: (self._is_avoided(i), self._load[i], i))
        if session:
            self._sessions[session] = index
            self._sessions.move_to_end(session)
            if len(self._sessions) > _REMEMBERED:
                self._sessions.popitem(last=False)
        return index

    def _is_avoided(self, index: int) -> bool:
        failed_at = self._failed_at.get(index)
        return failed_at is not None and time.monotonic() - failed_at < _AVOIDED_S


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
