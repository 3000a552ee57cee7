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


class ArrivalError(RuntimeError):
    """A rollout worker does not serve what the learner published; the run must stop."""


@dataclass(frozen=True)
class Published:
    """A version that every worker serves, and the largest probe difference seen."""

    files: AdapterFiles
    probe_difference: float
    seconds: float


class Publisher:
    """Sends versions to the workers; digest and probe log-probs must agree (pitfall 1)."""

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

    def prove(self, seed: int) -> None:
        """Show once that adapters act: a canary moves the sampler as it moves the learner.

        Raises:
            ArrivalError: a worker's log-probs do not follow.
        """
        name = str(AdapterVersion("canary", 0, 0))
        files, logprobs = self._learner.canary(name, derive_seed(seed, "canary"), self._probe_ids)
        self._send(files, logprobs)
        calls = [worker.probe.remote(None, self._probe_ids) for worker in self._workers]
        for index, base in enumerate(ray.get(calls, timeout=self._deadline_s)):
            change = _difference(base, logprobs)
            if change < _VISIBLE_CHANGE:
                raise ArrivalError(
                    f"rollout worker {index}: the canary adapter changes nothing ({change:.2g})"
                )
        self._retire([])

    def load_frozen(self, files: AdapterFiles) -> None:
        """Load an adapter that is never trained and stays."""
        self._frozen.append(files.version)
        reference = ray.put(files)
        calls = [w.load_adapter.remote(reference, self._probe_ids) for w in self._workers]
        for index, arrival in enumerate(ray.get(calls, timeout=self._deadline_s)):
            _check_digest(index, files, arrival)

    def publish(self, version: AdapterVersion) -> Published:
        """Make ``version`` the latest everywhere; older ones go when nothing uses them.

        Raises:
            ArrivalError: a worker holds other files, or its probe differs from the learner's.
        """
        start = time.monotonic()
        files, logprobs = self._learner.export(str(version), self._probe_ids)
        difference = self._send(files, logprobs)
        self._retire([files.version])
        return Published(files, difference, time.monotonic() - start)

    def _send(self, files: AdapterFiles, logprobs: Sequence[float]) -> float:
        reference = ray.put(files)
        calls = [w.load_adapter.remote(reference, self._probe_ids) for w in self._workers]
        largest = 0.0
        for index, arrival in enumerate(ray.get(calls, timeout=self._deadline_s)):
            _check_digest(index, files, arrival)
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


def _difference(left: Sequence[float], right: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(left, right, strict=True))
