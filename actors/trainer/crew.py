"""Starts the actors of a run in their places, waits for them with deadlines, and ends them."""

from dataclasses import dataclass
from typing import Any

import ray

from actors.judge import JudgeWorker
from actors.learner.group import LearnerGroup
from actors.learner.options import LearnerOptions
from actors.learner.rank import LearnerRank
from actors.placement import Placement, needs
from actors.rollout.options import RolloutOptions
from actors.rollout.worker import RolloutWorker
from actors.simulator import SimulatorOptions, SimulatorWorker
from actors.trainer.checkpoint import Checkpoint
from rl.config.schema import Config
from rl.data.tasks import Task
from rl.discovery.rules import DialogueRules

USER_ADAPTER_VERSION = "user@0.0"
_SHUTDOWN_DEADLINE_S = 20.0
_RESTARTS = 3


class StartError(RuntimeError):
    """An actor did not start; the message names it."""


@dataclass(frozen=True)
class Crew:
    """The live actors of a run."""

    rollouts: tuple[Any, ...]
    judges: tuple[Any, ...]
    simulators: tuple[Any, ...]
    ranks: tuple[Any, ...]
    learner: LearnerGroup
    kept: tuple[ray.ObjectRef, ...]  # constructor arguments, which restarted actors read again

    def end(self) -> None:
        """Stop vLLM's processes in good order, then end every actor."""
        ray.wait(
            [worker.shutdown.remote() for worker in self.rollouts],
            num_returns=len(self.rollouts),
            timeout=_SHUTDOWN_DEADLINE_S,
        )
        self.kill()

    def kill(self) -> None:
        """End every actor at once; an engine ends with its worker."""
        for actor in (*self.simulators, *self.judges, *self.rollouts, *self.ranks):
            ray.kill(actor)


def start_crew(
    config: Config,
    placement: Placement,
    model: str,
    tasks: tuple[Task, ...],
    checkpoint: Checkpoint | None,
) -> Crew:
    """Start all actors at once; return when every one is ready.

    Raises:
        StartError: one did not start before its deadline, or failed; none is left running.
    """
    need = {role: amount for role, (_, amount) in needs(config).items()}
    rollout_options = RolloutOptions.from_config(config, model)
    rollouts = tuple(
        ray.remote(RolloutWorker)
        .options(
            **placement.options("rollout", index, need["rollout"]),
            runtime_env={"env_vars": rollout_options.environment()},
            max_concurrency=1000,
        )
        .remote(rollout_options)
        for index in range(config.rollout.workers)
    )
    judges = tuple(
        ray.remote(JudgeWorker)
        .options(
            **placement.options("judge", index, need["judge"]),
            runtime_env={"env_vars": _threads(config.judge.threads)},
            max_concurrency=1000,
            max_restarts=_RESTARTS,
            max_task_retries=_RESTARTS,  # judging is a pure function: asked again, same verdict
        )
        .remote(config.judge)
        for index in range(config.judge.workers)
    )
    options = LearnerOptions.from_config(config, model)
    ranks = tuple(
        ray.remote(LearnerRank)
        .options(
            **placement.options("learner", index, need["learner"]),
            runtime_env={"env_vars": _threads(config.learner.threads)},
        )
        .remote(index, options)
        for index in range(config.learner.world_size)
    )
    setup = ray.put(_simulator_options(config, model, tasks))
    simulators = _start_simulators(config, placement, setup, rollouts, judges)
    learner = LearnerGroup(ranks, options)
    crew = Crew(rollouts, judges, simulators, ranks, learner, (setup,))
    try:
        _await_all(crew, checkpoint, config)
    except BaseException:  # Ctrl-C too: nobody else knows these actors yet
        crew.kill()
        raise
    return crew


def _await_all(crew: Crew, checkpoint: Checkpoint | None, config: Config) -> None:
    started = [
        ("rollout worker", [worker.start.remote() for worker in crew.rollouts]),
        ("judge", [worker.ready.remote() for worker in crew.judges]),
        ("simulator", [worker.ready.remote() for worker in crew.simulators]),
        (
            "learner rank",
            crew.learner.start(
                checkpoint.adapter if checkpoint else None,
                checkpoint.states if checkpoint else (),
            ),
        ),
    ]
    deadline = max(config.rollout.start_deadline_s, config.learner.start_deadline_s)
    for role, calls in started:
        for index, call in enumerate(calls):
            _await_start(f"{role} {index}", call, deadline)


def _simulator_options(config: Config, model: str, tasks: tuple[Task, ...]) -> SimulatorOptions:
    user_adapter = USER_ADAPTER_VERSION if config.discovery.user_adapter else None
    return SimulatorOptions(
        model=model,
        enable_thinking=config.model.enable_thinking,
        rules=DialogueRules.from_config(config, user_adapter),
        tasks=tasks,
        concurrent_episodes=config.simulator.concurrent_episodes,
        episode_deadline_s=config.simulator.episode_deadline_s,
        judge_deadline_s=config.judge.deadline_s,
    )


def _start_simulators(
    config: Config,
    placement: Placement,
    setup: ray.ObjectRef,
    rollouts: tuple[Any, ...],
    judges: tuple[Any, ...],
) -> tuple[Any, ...]:
    need = needs(config)["simulator"][1]
    return tuple(
        ray.remote(SimulatorWorker)
        .options(
            **placement.options("simulator", index, need),
            runtime_env={"env_vars": _threads(1)},
            max_concurrency=1000,
            max_restarts=_RESTARTS,
        )
        .remote(setup, list(rollouts), list(judges))
        for index in range(config.simulator.workers)
    )


def _threads(count: int) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(max(1, count)), "TOKENIZERS_PARALLELISM": "false"}


def _await_start(name: str, call: ray.ObjectRef, deadline_s: float) -> None:
    try:
        ray.get(call, timeout=deadline_s)
    except ray.exceptions.GetTimeoutError:
        raise StartError(f"{name} did not start within {deadline_s:g} s") from None
    except ray.exceptions.RayError as error:
        raise StartError(f"{name} did not start: {_last_line(error)}") from error


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
