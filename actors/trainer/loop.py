"""The training loop: episodes stream in, batches are cut, the learner trains, versions go out."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from actors.simulator import failed_episode
from actors.trainer.checkpoint import Checkpoint, Progress, save_checkpoint
from actors.trainer.crew import Crew
from actors.trainer.gate import Cut, EpisodeGate
from actors.trainer.publish import Published, Publisher
from actors.trainer.run_folder import RunFolder
from actors.trainer.simulators import Broken, Lost, SimulatorPool
from actors.trainer.step_metrics import step_row
from rl.config.schema import Config
from rl.episode.outcome import EpisodeEnd
from rl.episode.records import Episode, EpisodeId, as_failed
from rl.episode.stream import episode_at
from rl.grpo.batch import TrainingBatch, build_training_batch
from rl.policy.version import AdapterVersion

# How long one look at the actors may take before the stall deadline is checked again.
_POLL_S = 5.0


class TrainingError(RuntimeError):
    """The run cannot go on; the message says why in one line."""


@dataclass(frozen=True)
class Training:
    """A batch that the learner is working on."""

    cut: Cut
    batch: TrainingBatch
    calls: Sequence[ray.ObjectRef]
    started: float


class TrainingLoop:
    """Runs a run from its start, or a checkpoint, to its last step.

    Invariant: every episode is trained in exactly one step or counted as failed, and a checkpoint
    knows which; metrics and episodes of a step are on disk before its checkpoint.
    """

    def __init__(
        self,
        config: Config,
        crew: Crew,
        publisher: Publisher,
        folder: RunFolder,
        domains: Mapping[str, str],
        progress: Progress,
        on_step: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._config = config
        self._crew = crew
        self._publisher = publisher
        self._folder = folder
        self._domains = domains
        self._lineage = progress.lineage
        self._on_step = on_step
        self.step = progress.step
        self._updates = progress.updates
        self._gate = EpisodeGate(
            config.train.episodes_per_step,
            config.train.staleness,
            progress.trained,
            progress.failed,
        )
        self._tasks = list(domains)
        self._simulators = SimulatorPool(crew.simulators)
        self._attempts: Counter[int] = Counter()
        self._failures: Counter[str] = Counter(progress.failures)
        self._failed: list[Episode] = []  # since the last step's row
        self._failed_in_a_row = 0
        self._training: Training | None = None
        self._published: Published | None = None
        self._checkpoint_seconds = 0.0
        self._free_since = time.monotonic()

    def run(self) -> None:
        """Train until the configured number of steps is done.

        Raises:
            TrainingError: too many failures, too large a mismatch, a learner rank that failed, or
                no progress.
            NoSimulatorError: no simulator is left.
        """
        self._publish()
        self._checkpoint()
        self._free_since = time.monotonic()
        while self.step < self._config.train.steps:
            self._admit()
            if self._training is None and self._gate.ready(self.step):
                self._start_training()
            else:
                self._take_in()

    def _admit(self) -> None:
        """Start every episode that the gate lets in; none that no remaining step could train."""
        limit = self._config.train.steps * self._config.train.episodes_per_step
        while (
            self._simulators.available
            and len(self._gate.trained) + self._gate.complete + self._gate.running < limit
        ):
            order = self._gate.admit(self.step)
            if order is None:
                return
            episode = episode_at(order, self._tasks, self._config.run.seed)
            self._attempts[order] += 1
            self._simulators.start(episode)

    def _take_in(self) -> None:
        """Wait for something to happen and handle it."""
        training = self._training.calls if self._training else ()
        waiting = [*self._simulators.pending, *training]
        if not waiting:
            raise TrainingError(f"step {self.step}: no episode is running and none can start")
        deadline = time.monotonic() + self._stall_deadline()
        while True:
            done, _ = ray.wait(waiting, num_returns=1, timeout=_POLL_S)
            if done:
                break
            if time.monotonic() > deadline:
                raise TrainingError(
                    f"nothing happened for {self._stall_deadline():g} s at step {self.step}: "
                    f"{self._gate.running} episodes running, {self._gate.complete} complete, "
                    f"learner {'busy' if self._training else 'idle'}"
                )
        if done[0] in training:
            assert self._training is not None
            self._await_ranks(self._training)
            self._finish_step(self._training)
        else:
            self._take_episode(done[0])

    def _await_ranks(self, training: Training) -> None:
        """Wait for all ranks, which finish together; one that failed ends the run at once.

        The others then hang in a collective, so waiting for them would only hide the reason.
        """
        pending = list(training.calls)
        while pending:
            left = self._config.learner.step_deadline_s - (time.monotonic() - training.started)
            done, pending = ray.wait(pending, num_returns=1, timeout=max(1.0, left))
            if not done:
                raise TrainingError(
                    f"step {self.step + 1}: {len(pending)} of {len(training.calls)} learner ranks "
                    "did not finish within "
                    f"learner.step_deadline_s={self._config.learner.step_deadline_s}"
                )
            try:
                ray.get(done[0])
            except RayError as error:
                rank = list(training.calls).index(done[0])
                raise TrainingError(
                    f"step {self.step + 1}: learner rank {rank} failed: {_last_line(error)}"
                ) from error

    def _take_episode(self, call: ray.ObjectRef) -> None:
        played = self._simulators.take(call)
        if played is None:
            return
        if isinstance(played, Lost):
            self._failures["simulator_died"] += 1
            if self._attempts[played.id.order] < self._config.simulator.max_attempts:
                self._gate.reissue(played.id.order)
                return
            episode = self._unplayed(played.id, EpisodeEnd.ACTOR_DIED, played.detail)
        elif isinstance(played, Broken):
            episode = self._unplayed(played.id, EpisodeEnd.INTERNAL_ERROR, played.detail)
        else:
            episode = played
        if self._gate.deliver(episode):
            self._failed_in_a_row = 0
            return
        self._count_failed(episode)

    def _unplayed(self, episode: EpisodeId, end: EpisodeEnd, detail: str) -> Episode:
        return failed_episode(episode, self._domains[episode.task], end, detail)

    def _count_failed(self, episode: Episode) -> None:
        self._failures[str(episode.end)] += 1
        self._failed_in_a_row += 1
        self._failed.append(episode)
        self._folder.add_episodes([episode])
        if self._failed_in_a_row >= self._config.train.max_failed_episodes:
            last = episode.detail.strip().splitlines()[-1:] or ["no detail"]
            raise TrainingError(
                f"{self._failed_in_a_row} episodes failed in a row "
                f"(train.max_failed_episodes); the last: {episode.end}: {last[0]}"
            )

    def _start_training(self) -> None:
        cut, dropped = self._gate.cut(self.step, self._lineage)
        for episode in dropped:
            detail = f"written by {', '.join(episode.versions)} at step {self.step}"
            self._count_failed(as_failed(episode, EpisodeEnd.STALE, detail))
        if not cut.episodes:
            return
        batch = build_training_batch(cut.episodes, self._config.grpo)
        assert self._published is not None
        calls: Sequence[ray.ObjectRef] = ()
        if batch.samples:
            version = self._published.files.version
            calls = self._crew.learner.train(batch, self._updates, version)
        self._training = Training(cut, batch, calls, time.monotonic())
        self._folder.set_status("training", self.step + 1, self._config.train.steps)
        if not calls:
            self._finish_step(self._training)

    def _finish_step(self, training: Training) -> None:
        """Publish, record and checkpoint one trained step, in this order.

        A step whose mismatch is too large is recorded and not checkpointed: what it did to the
        policy is not worth continuing from.
        """
        report = None
        if training.calls:
            report = self._crew.learner.report(ray.get(list(training.calls)))
            self._updates += self._config.grpo.updates_per_batch
        trained_at = time.monotonic()
        self._training = None
        self.step += 1
        self._publish()
        assert self._published is not None
        row = step_row(
            step=self.step,
            steps=self._config.train.steps,
            published=self._published,
            cut=training.cut,
            batch=training.batch,
            report=report,
            seconds={
                "wait": training.started - self._free_since,
                "train": trained_at - training.started,
                "publish": self._published.seconds,
                "checkpoint": self._checkpoint_seconds,
            },
            failures=self._failures,
            failed=tuple(self._failed),
            rollout_counters=self._rollout_counters(),
            kv_age=self._kv_age(),
        )
        self._failed.clear()
        self._folder.add_episodes(training.cut.episodes)
        self._folder.add_metrics(row)
        self._on_step(row)
        self._check_mismatch(row["mismatch_kl_current"])
        due = self.step % self._config.train.checkpoint_every == 0
        if due or self.step == self._config.train.steps:
            self._checkpoint()
        self._folder.set_status("rollout", self.step, self._config.train.steps)
        self._free_since = time.monotonic()

    def _check_mismatch(self, mismatch: float | None) -> None:
        """Stop when sampler and learner disagree on tokens of the version that was trained on.

        Staler tokens differ by what the policy has learnt since, so they are left out; without
        any token of the current version (``None``) there is nothing to check (pitfall 8).
        """
        limit = self._config.train.max_mismatch_kl
        if mismatch is not None and not mismatch <= limit:
            raise TrainingError(
                f"step {self.step}: sampler and learner disagree: mismatch KL {mismatch:.3g} is "
                f"above train.max_mismatch_kl={limit:g}"
            )

    def _publish(self) -> None:
        version = AdapterVersion(self._config.train.seat, self._lineage, self.step)
        self._published = self._publisher.publish(version)

    def _checkpoint(self) -> None:
        start = time.monotonic()
        assert self._published is not None
        progress = Progress(
            step=self.step,
            updates=self._updates,
            lineage=self._lineage,
            seed=self._config.run.seed,
            world_size=self._config.learner.world_size,
            trained=tuple(sorted(self._gate.trained)),
            failed=tuple(sorted(self._gate.failed)),
            failures=dict(self._failures),
        )
        save_checkpoint(
            self._folder.checkpoints,
            Checkpoint(progress, self._published.files, tuple(self._crew.learner.states())),
            self._config.train.keep_checkpoints,
        )
        self._checkpoint_seconds = time.monotonic() - start

    def _kv_age(self) -> int:
        """Return how many steps old the oldest adapter is whose cached blocks can still be read.

        Blocks are kept by adapter version, and a version's go with it (pitfall 4).
        """
        calls = [worker.versions.remote() for worker in self._crew.rollouts]
        held = ray.get(calls, timeout=self._config.rollout.request_deadline_s)
        versions = [AdapterVersion.parse(name) for names in held for name in names]
        seat = self._config.train.seat
        return max((self.step - v.step for v in versions if v.seat == seat), default=0)

    def _rollout_counters(self) -> dict[str, int]:
        calls = [worker.counters.remote() for worker in self._crew.rollouts]
        total: Counter[str] = Counter()
        for counters in ray.get(calls, timeout=self._config.rollout.request_deadline_s):
            total.update(counters)
        return dict(total)

    def _stall_deadline(self) -> float:
        return max(
            self._config.simulator.episode_deadline_s + self._config.judge.deadline_s,
            self._config.learner.step_deadline_s,
        )


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
