"""The pool of rollout workers as one sampler: sticky by prefix, elsewhere when a worker dies."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rl.sampling import SampleRequest, SampleResult, SamplingError

# Turns of one dialogue share these first tokens, so that they reach the same prefix cache.
_STICKY_TOKENS = 96
_REMEMBERED = 4096


class RolloutPool:
    """Spreads requests over workers; a dialogue's turns stay on one worker while it lives."""

    def __init__(self, workers: Sequence[Any]) -> None:
        self._workers = list(workers)
        self._load: Counter[int] = Counter()
        self._sticky: dict[tuple[int, ...], int] = {}

    async def sample(self, request: SampleRequest) -> SampleResult:
        """Sample on the prefix's worker; on another one if it died.

        Raises:
            SamplingError: the request itself cannot be answered, or every worker is dead.
        """
        from ray.exceptions import RayActorError

        tried: set[int] = set()
        while len(tried) < len(self._workers):
            index = self._pick(request.prompt_ids[:_STICKY_TOKENS], tried)
            self._load[index] += 1
            try:
                return await self._workers[index].sample.remote(request)
            except RayActorError:
                tried.add(index)
                self._sticky.pop(request.prompt_ids[:_STICKY_TOKENS], None)
            finally:
                self._load[index] -= 1
        raise SamplingError(f"none of {len(self._workers)} rollout workers is alive")

    def _pick(self, prefix: tuple[int, ...], tried: set[int]) -> int:
        known = self._sticky.get(prefix)
        if known is not None and known not in tried:
            return known
        free = [index for index in range(len(self._workers)) if index not in tried]
        index = min(free, key=lambda i: (self._load[i], i))
        if len(self._sticky) >= _REMEMBERED:
            self._sticky.pop(next(iter(self._sticky)))
        self._sticky[prefix] = index
        return index
