"""Publishing the learner's adapter to all rollout workers, with proof that it arrived."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray

from actors.learner.group import LearnerGroup
from actors.rollout.worker import Arrival
from rl.policy.adapter import AdapterFiles
from rl.policy.version import AdapterVersion
from rl.seeding import derive_seed

# A canary changes the probe's log-probs by about one; anything near zero means it did not act.
_VISIBLE_CHANGE = 0.05
# A change of the policy tells two versions apart when it is so many times the sampler's noise.
_CLEAR_CHANGE = 4.0
_SMALLEST_NOISE = 1e-6


class ArrivalError(RuntimeError):
    """A rollout worker does not serve what the learner published; the run must stop."""


@dataclass(frozen=True)
class Published:
    """A version that every worker serves, and what the probe's log-probs say about it.

    ``probe_difference`` is the largest between a worker and the learner. ``probe_moved`` is how far
    the learner itself is from the version that was last told apart (``None`` for the first one);
    ``probe_conclusive`` says whether that was far enough to tell this version apart, too.
    """

    files: AdapterFiles
    probe_difference: float
    probe_moved: float | None
    probe_conclusive: bool
    seconds: float


class Publisher:
    """Sends versions to the workers; digest and probe log-probs must agree (pitfall 1).

    One update moves the policy less than the tolerance, so agreement alone could not tell a worker
    that still serves the version before. As soon as the learner's probe has moved clearly more
    than the noise measured with the canary, every worker's must therefore be nearer to the new
    version than to the one last told apart. Smaller moves add up until they are clear.
    """

    def __init__(
        self,
        learner: LearnerGroup,
        workers: Sequence[Any],
        probe_ids: Sequence[int],
        tolerance: float,
        deadline_s: float,
    ) -> None:
        self._learner = learner
        self._workers = list(workers)
        self._probe_ids = tuple(probe_ids)
        self._tolerance = tolerance
        self._deadline_s = deadline_s
        self._frozen: list[str] = []
        self._noise = _SMALLEST_NOISE
        self._told_apart: tuple[float, ...] | None = None

    def prove(self, seed: int) -> None:
        """Show once that adapters act: a canary moves the sampler as it moves the learner.

        Raises:
            ArrivalError: a worker's log-probs do not follow.
        """
        name = str(AdapterVersion("canary", 0, 0))
        files, logprobs = self._learner.canary(name, derive_seed(seed, "canary"), self._probe_ids)
        arrivals = self._send(files)
        self._noise = max(self._noise, self._largest_difference(files, arrivals, logprobs))
        calls = [worker.probe.remote(None, self._probe_ids) for worker in self._workers]
        for index, base in enumerate(ray.get(calls, timeout=self._deadline_s)):
            change = _difference(base, logprobs)
            if not change >= _VISIBLE_CHANGE:
                raise ArrivalError(
                    f"rollout worker {index}: the canary adapter changes nothing ({change:.2g})"
                )
        self._retire([])

    def load_frozen(self, files: AdapterFiles) -> None:
        """Load an adapter that is never trained and stays.

        Raises:
            ArrivalError: a worker holds other files, or the adapter changes nothing there.
        """
        self._frozen.append(files.version)
        arrivals = self._send(files)
        calls = [worker.probe.remote(None, self._probe_ids) for worker in self._workers]
        bases = ray.get(calls, timeout=self._deadline_s)
        for index, (arrival, base) in enumerate(zip(arrivals, bases, strict=True)):
            if _difference(base, arrival.probe_logprobs) <= _CLEAR_CHANGE * self._noise:
                raise ArrivalError(
                    f"rollout worker {index}: the frozen adapter {files.version} changes nothing: "
                    "it was never trained, or it does not act"
                )

    def publish(self, version: AdapterVersion) -> Published:
        """Make ``version`` the latest everywhere; older ones go when nothing uses them.

        Raises:
            ArrivalError: a worker holds other files, its probe differs from the learner's, or it
                is nearer to an older version.
        """
        start = time.monotonic()
        files, logprobs = self._learner.export(str(version), self._probe_ids)
        arrivals = self._send(files)
        difference = self._largest_difference(files, arrivals, logprobs)
        before = self._told_apart
        moved = None if before is None else _difference(logprobs, before)
        conclusive = moved is not None and moved > _CLEAR_CHANGE * self._noise
        if conclusive:
            assert before is not None
            _check_nearer(files, arrivals, logprobs, before)
        if conclusive or before is None:
            self._told_apart = tuple(logprobs)
        self._retire([files.version])
        return Published(files, difference, moved, conclusive, time.monotonic() - start)

    def _send(self, files: AdapterFiles) -> list[Arrival]:
        reference = ray.put(files)
        calls = [w.load_adapter.remote(reference, self._probe_ids) for w in self._workers]
        arrivals: list[Arrival] = ray.get(calls, timeout=self._deadline_s)
        for index, arrival in enumerate(arrivals):
            _check_digest(index, files, arrival)
        return arrivals

    def _largest_difference(
        self, files: AdapterFiles, arrivals: Sequence[Arrival], logprobs: Sequence[float]
    ) -> float:
        largest = 0.0
        for index, arrival in enumerate(arrivals):
            difference = _difference(arrival.probe_logprobs, logprobs)
            largest = max(largest, difference)
            if not difference <= self._tolerance:
                raise ArrivalError(
                    f"rollout worker {index}: the probe's log-probs under {files.version} differ "
                    f"from the learner's by {difference:.3g}, more than "
                    f"rollout.probe_tolerance={self._tolerance:g}"
                )
        return largest

    def _retire(self, keep: Sequence[str]) -> None:
        calls = [worker.retire.remote([*keep, *self._frozen]) for worker in self._workers]
        ray.get(calls, timeout=self._deadline_s)


def _check_digest(index: int, files: AdapterFiles, arrival: Arrival) -> None:
    if arrival.digest != files.digest:
        raise ArrivalError(
            f"rollout worker {index}: adapter {files.version} arrived with digest "
            f"{arrival.digest[:12]}, published was {files.digest[:12]}"
        )


def _check_nearer(
    files: AdapterFiles,
    arrivals: Sequence[Arrival],
    new: Sequence[float],
    old: Sequence[float],
) -> None:
    for index, arrival in enumerate(arrivals):
        to_new = _difference(arrival.probe_logprobs, new)
        to_old = _difference(arrival.probe_logprobs, old)
        if not to_new < to_old:
            raise ArrivalError(
                f"rollout worker {index} still serves an older version under the name "
                f"{files.version}: its probe's log-probs are {to_old:.3g} from the older one's "
                f"and {to_new:.3g} from the learner's"
            )


def _difference(left: Sequence[float], right: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(left, right, strict=True))
