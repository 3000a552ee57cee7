"""The learner as the trainer sees it: all ranks behind one handle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from actors.learner.options import LearnerOptions
from rl.grpo.batch import TrainingBatch
from rl.grpo.loss import LossCounts
from rl.grpo.loss_metrics import add_sums, mean_metrics
from rl.grpo.partition import pack_micro_batches, split_over_ranks
from rl.policy.adapter import AdapterFiles


@dataclass(frozen=True)
class TrainReport:
    """What one batch did to the policy; ``metrics`` are means over its trained tokens.

    ``mismatch_kl`` and ``mismatch_kl_current`` (over tokens of the policy's own version only;
    ``None`` without any) are measured before the first update, the rest over all updates. All is
    ``None`` when the batch had no trained token and no update was made.
    """

    metrics: Mapping[str, float | None]
    grad_norm: float | None
    learning_rate: float | None


class LearnerGroup:
    """Drives the ranks: every call goes to all of them, and every wait has a deadline."""

    def __init__(self, ranks: Sequence[Any], options: LearnerOptions) -> None:
        self._ranks = list(ranks)
        self._options = options

    def start(
        self,
        adapter: AdapterFiles | None = None,
        states: Sequence[Mapping[str, bytes]] = (),
    ) -> list[ray.ObjectRef]:
        """Gather the ranks and load the model on each; return what to wait for.

        ``states`` are all ranks' files of a checkpoint; every rank gets their union.
        """
        deadline = self._options.learner.start_deadline_s
        address, port = ray.get(self._ranks[0].rendezvous.remote(), timeout=deadline)
        union = {name: content for state in states for name, content in state.items()}
        state = ray.put(union) if union else None
        return [rank.load.remote(address, port, adapter, state) for rank in self._ranks]

    def train(
        self, batch: TrainingBatch, first_update: int, version: str | None = None
    ) -> list[ray.ObjectRef]:
        """Start training on ``batch``; return each rank's reference for :meth:`report`.

        ``version`` is the name under which the sampler knows the policy as it is now.
        """
        samples = batch.samples
        counts = LossCounts(tokens=batch.trained_tokens, samples=len(samples))
        shared = ray.put(samples)
        micro_batches = self.partition(batch)
        return [
            rank.train.remote(shared, micro_batches, counts, first_update, version)
            for rank in self._ranks
        ]

    def partition(self, batch: TrainingBatch) -> list[list[list[int]]]:
        """Return each rank's micro-batches, as indices into the batch; all have the same number."""
        parts = []
        for share in split_over_ranks(batch.samples, len(self._ranks)):
            chosen = [batch.samples[index] for index in share]
            packed = pack_micro_batches(chosen, self._options.learner.micro_batch_tokens)
            parts.append([[share[index] for index in micro] for micro in packed])
        longest = max(len(part) for part in parts)
        return [part + [[]] * (longest - len(part)) for part in parts]

    def report(self, results: Sequence[Sequence[Any]]) -> TrainReport:
        """Join what the ranks returned from :meth:`train`."""
        updates = list(zip(*results, strict=True))
        if not updates:
            return TrainReport(mean_metrics({}), None, None)
        sums = [add_sums(report.sums for report in update) for update in updates]
        metrics = mean_metrics(add_sums(sums))
        for share in ("loss", "policy_loss", "kl_loss"):
            value = metrics.get(share)
            metrics[share] = None if value is None else value / len(updates)
        before = mean_metrics(sums[0])
        metrics |= {name: before[name] for name in ("mismatch_kl", "mismatch_kl_current")}
        last = updates[-1][0]
        return TrainReport(metrics, last.grad_norm, last.learning_rate)

    def export(
        self, version: str, probe_ids: Sequence[int]
    ) -> tuple[AdapterFiles, tuple[float, ...]]:
        """Return the adapter and its probe log-probs; rank 0's, after all ranks took part."""
        calls = [rank.export.remote(version, tuple(probe_ids)) for rank in self._ranks]
        return ray.get(calls, timeout=self._options.learner.step_deadline_s)[0]

    def canary(
        self, version: str, seed: int, probe_ids: Sequence[int]
    ) -> tuple[AdapterFiles, tuple[float, ...]]:
        """Return an adapter that changes the policy visibly, with its probe log-probs."""
        calls = [rank.canary.remote(version, seed, tuple(probe_ids)) for rank in self._ranks]
        return ray.get(calls, timeout=self._options.learner.step_deadline_s)[0]

    def states(self) -> list[dict[str, bytes]]:
        """Return every rank's optimiser state as files."""
        calls = [rank.state.remote() for rank in self._ranks]
        return ray.get(calls, timeout=self._options.learner.step_deadline_s)
