"""The training loop: episodes stream in, batches are cut, the learner trains, versions go out."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from actors.simulator import failed_episode
from actors.trainer.checkpoint import Checkpoint, Progress, save_checkpoint
from actors.trainer.crew import Crew
from actors.trainer.gate import Cut, EpisodeGate
from actors.trainer.publish import Published, Publisher
from actors.trainer.run_folder import RunFolder
from actors.trainer.step_metrics import step_row
from rl.config.schema import Config
from rl.episode.outcome import EpisodeEnd
from rl.episode.records import Episode, EpisodeId
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
        self._simulators = cycle(crew.simulators)
        self._episodes: dict[ray.ObjectRef, EpisodeId] = {}
        self._attempts: Counter[int] = Counter()
        self._failures: Counter[str] = Counter()
        self._failed_in_a_row = 0
        self._training: Training | None = None
        self._published: Published | None = None
        self._free_since = time.monotonic()

    def run(self) -> None:
        """Train until the configured number of steps is done.

        Raises:
            TrainingError: too many failures, too large a mismatch, or no progress.
        """
        self._publish()
        self._checkpoint()
        while self.step < self._config.train.steps:
            self._admit()
            if self._training is None and self._gate.ready(self.step):
                self._start_training()
            else:
                self._take_in()

    def _admit(self) -> None:
        """Start every episode that the gate lets in; none that no remaining step could train."""
        limit = self._config.train.steps * self._config.train.episodes_per_step
        while len(self._gate.trained) + self._gate.complete + self._gate.running < limit:
            order = self._gate.admit(self.step)
            if order is None:
                return
            episode = episode_at(order, self._tasks, self._config.run.seed)
            self._attempts[order] += 1
            call = next(self._simulators).run_episode.remote(episode)
            self._episodes[call] = episode

    def _take_in(self) -> None:
        """Wait for something to happen and handle it."""
        waiting = [*self._episodes, *(self._training.calls if self._training else ())]
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
        call = done[0]
        if call in self._episodes:
            self._take_episode(call)
        elif self._training is not None and self._all_trained(self._training):
            self._finish_step(self._training)

    def _all_trained(self, training: Training) -> bool:
        """Wait for the other ranks: they finish together."""
        left = self._config.learner.step_deadline_s - (time.monotonic() - training.started)
        ready, pending = ray.wait(
            list(training.calls), num_returns=len(training.calls), timeout=max(1.0, left)
        )
        if pending:
            raise TrainingError(
                f"step {self.step + 1}: {len(pending)} of {len(training.calls)} learner ranks did "
                f"not finish within learner.step_deadline_s={self._config.learner.step_deadline_s}"
            )
        return bool(ready)

    def _take_episode(self, call: ray.ObjectRef) -> None:
        episode_id = self._episodes.pop(call)
        try:
            episode: Episode = ray.get(call)
        except RayActorError as error:
            self._failures["simulator_died"] += 1
            if self._attempts[episode_id.order] < self._config.simulator.max_attempts:
                self._gate.reissue(episode_id.order)
                return
            episode = self._failed(episode_id, EpisodeEnd.ACTOR_DIED, str(error))
        except RayTaskError as error:
            episode = self._failed(episode_id, EpisodeEnd.INTERNAL_ERROR, str(error))
        if self._gate.deliver(episode):
            self._failed_in_a_row = 0
            return
        self._count_failed(episode)

    def _failed(self, episode: EpisodeId, end: EpisodeEnd, detail: str) -> Episode:
        return failed_episode(episode, self._domains[episode.task], end, detail)

    def _count_failed(self, episode: Episode) -> None:
        self._failures[str(episode.end)] += 1
        self._failed_in_a_row += 1
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
            self._count_failed(
                self._failed(episode.id, EpisodeEnd.STALE, f"written by {episode.versions}")
            )
        if not cut.episodes:
            return
        batch = build_training_batch(cut.episodes, self._config.grpo)
        calls = self._crew.learner.train(batch, self._updates) if batch.samples else ()
        self._training = Training(cut, batch, calls, time.monotonic())
        self._folder.set_status("training", self.step + 1, self._config.train.steps)
        if not calls:
            self._finish_step(self._training)

    def _finish_step(self, training: Training) -> None:
        report = None
        if training.calls:
            results = ray.get(list(training.calls))
            report = self._crew.learner.report(results)
            self._updates += self._config.grpo.updates_per_batch
        trained_at = time.monotonic()
        self._training = None
        self.step += 1
        self._publish()
        assert self._published is not None
        row = step_row(
            step=self.step,
            steps=self._config.train.steps,
            version=self._published.files.version,
            cut=training.cut,
            batch=training.batch,
            report=report,
            seconds={
                "wait": training.started - self._free_since,
                "train": trained_at - training.started,
                "publish": self._published.seconds,
            },
            failures=self._failures,
            probe_difference=self._published.probe_difference,
            rollout_counters=self._rollout_counters(),
        )
        self._free_since = time.monotonic()
        self._folder.add_episodes(training.cut.episodes)
        self._folder.add_metrics(row)
        due = self.step % self._config.train.checkpoint_every == 0
        if due or self.step == self._config.train.steps:
            self._checkpoint()
        self._folder.set_status("rollout", self.step, self._config.train.steps)
        self._on_step(row)
        self._check_mismatch(row["mismatch_kl"])

    def _check_mismatch(self, mismatch: float | None) -> None:
        limit = self._config.train.max_mismatch_kl
        if mismatch is not None and mismatch > limit and self._config.train.staleness == 0:
            raise TrainingError(
                f"step {self.step}: sampler and learner disagree: mismatch KL {mismatch:.3g} is "
                f"above train.max_mismatch_kl={limit:g}"
            )

    def _publish(self) -> None:
        version = AdapterVersion(self._config.train.seat, self._lineage, self.step)
        self._published = self._publisher.publish(version)

    def _checkpoint(self) -> None:
        assert self._published is not None
        progress = Progress(
            step=self.step,
            updates=self._updates,
            lineage=self._lineage,
            seed=self._config.run.seed,
            world_size=self._config.learner.world_size,
            trained=tuple(sorted(self._gate.trained)),
            failed=tuple(sorted(self._gate.failed)),
        )
        save_checkpoint(
            self._folder.checkpoints,
            Checkpoint(progress, self._published.files, tuple(self._crew.learner.states())),
            self._config.train.keep_checkpoints,
        )

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
