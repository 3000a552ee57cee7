"""The learner actor: one rank of the policy's training, driven by the learner group."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from actors.learner.distributed import free_port, join
from actors.learner.options import LearnerOptions
from rl.grpo.batch import TrainingSample
from rl.grpo.loss import LossCounts
from rl.policy.adapter import AdapterFiles

if TYPE_CHECKING:
    from actors.learner.engine import LearnerEngine, UpdateReport


class LearnerRank:
    """One rank of the learner.

    Invariant: all ranks hold the same adapter between calls; every call is a collective that the
    group sends to all ranks.

    When a rank dies the others fail at their next collective's deadline; the run stops with an
    error and continues from its last checkpoint.
    """

    def __init__(self, rank: int, options: LearnerOptions) -> None:
        self._rank = rank
        self._options = options
        self._loaded: LearnerEngine | None = None

    def rendezvous(self) -> tuple[str, int]:
        """Return an address and port where this rank, as rank 0, can gather the others."""
        address = _node_address()
        return address, free_port(address)

    def load(
        self,
        address: str,
        port: int,
        adapter: AdapterFiles | None = None,
        state: Mapping[str, bytes] | None = None,
    ) -> int:
        """Join the group and load the model; continue from ``adapter`` and ``state`` if given.

        Returns the number of trained parameters.
        """
        import torch

        if not self._options.learner.gpus:
            torch.set_num_threads(self._options.learner.threads)
        join(
            rank=self._rank,
            world_size=self._options.learner.world_size,
            address=address,
            port=port,
            own_address=_node_address(),
            backend=self._options.learner.backend,
            deadline_s=self._options.learner.step_deadline_s,
        )
        from actors.learner.engine import LearnerEngine
        from actors.learner.state import load_state

        self._loaded = LearnerEngine(self._options, adapter)
        if state is not None:
            load_state(self._loaded.engine, state)
        return self._loaded.trained_parameters

    def train(
        self,
        samples: Sequence[TrainingSample],
        micro_batches: Sequence[Sequence[Sequence[int]]],
        counts: LossCounts,
        first_update: int,
        version: str | None = None,
    ) -> "list[UpdateReport]":
        """Run the updates of one batch; ``micro_batches`` has one entry for each rank.

        ``version`` names the policy that is trained, as the sampler knows it.
        """
        return self._engine.train(samples, micro_batches[self._rank], counts, first_update, version)

    def logprobs(self, samples: Sequence[TrainingSample]) -> list[tuple[float, ...]]:
        """Return the policy's log-prob of each trained token of each sample."""
        return self._engine.logprobs(samples)

    def export(
        self, version: str, probe_ids: Sequence[int]
    ) -> tuple[AdapterFiles, tuple[float, ...]]:
        """Return the adapter as files, and the probe's log-probs under it at temperature 1."""
        return self._engine.export(version), self._engine.probe(probe_ids)

    def canary(
        self, version: str, seed: int, probe_ids: Sequence[int]
    ) -> tuple[AdapterFiles, tuple[float, ...]]:
        """Return an adapter that changes the policy visibly, with its probe log-probs."""
        return self._engine.canary(version, seed, probe_ids)

    def state(self) -> dict[str, bytes]:
        """Return this rank's optimiser state as files."""
        from actors.learner.state import save_state

        return save_state(self._engine.engine)

    @property
    def _engine(self) -> "LearnerEngine":
        if self._loaded is None:
            raise RuntimeError("the learner has not loaded its model yet")
        return self._loaded


def _node_address() -> str:
    import ray

    return str(ray.util.get_node_ip_address())
