"""A whole GRPO job: from a validated configuration to a finished run folder."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from actors import cluster
from actors.placement import Placement, place
from actors.preflight import check_nodes
from actors.rollout.options import RolloutOptions
from actors.trainer.checkpoint import Checkpoint, Progress, load_checkpoint
from actors.trainer.crew import USER_ADAPTER_VERSION, Crew, start_crew
from actors.trainer.loop import TrainingLoop
from actors.trainer.publish import Publisher
from actors.trainer.report import StepPrinter, final_rows, print_rows
from actors.trainer.run_folder import RunFolder
from actors.trainer.tracker import Tracker, check_tracker
from rl.config.load import config_to_yaml
from rl.config.paths import CHECKPOINTS
from rl.config.schema import Config
from rl.data.tasks import Task, bundled_task_files, load_tasks
from rl.episode.jsonl import read_rows
from rl.models.preflight import check_model
from rl.models.resolve import resolve_model
from rl.policy.adapter import read_adapter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Any text will do: learner and sampler must score it alike.
_PROBE_TEXT = "Could you help me write something short about the sea? I do not know what yet."

_PROBE_TOKENS = 13


@dataclass(frozen=True)
class Job:
    """What a run works with, checked and read before any actor starts."""

    config: Config
    tasks: tuple[Task, ...]
    model: str
    probe_ids: tuple[int, ...]


def prepare_job(config: Config) -> Job:
    """Read tasks and tokenizer, check model and tracker; raise one-line errors, write nothing."""
    files = [Path(name) for name in config.tasks.files]
    tasks = tuple(load_tasks(files or bundled_task_files(config.tasks.domains)))
    model = str(resolve_model(config.model))
    tokenizer = check_model(config, model, RolloutOptions.from_config(config, model).max_lora_rank)
    check_tracker(config.run)
    return Job(config, tasks, model, _probe_ids(tokenizer))


def run_job(job: Job) -> int:
    """Run to the last step; return the process's exit status. Ray is connected already."""
    config = job.config
    resume = Path(config.run.resume) / CHECKPOINTS
    checkpoint = load_checkpoint(resume) if config.run.resume else None
    placement = place(config)
    try:
        check_nodes(job.model, config.cluster.placement_deadline_s)
    except cluster.ClusterError:
        placement.remove()
        raise
    folder = _open_folder(config, checkpoint)
    steps = config.train.steps
    started = time.time()
    print(f"run folder: {folder.folder}", flush=True)
    folder.set_status("starting", checkpoint.progress.step if checkpoint else 0, steps)
    crew: Crew | None = None
    error = ""
    tracker: Tracker | None = None
    try:
        tracker = Tracker(config.run, folder.folder, {"config": config_to_yaml(config)})
        crew = start_crew(config, placement, job.model, job.tasks, checkpoint)
        print(f"all actors ready after {time.time() - started:.0f} s", flush=True)
        _train(job, crew, folder, checkpoint, tracker)
    except (RuntimeError, ValueError, OSError, ray.exceptions.RayError) as failure:
        error = f"{type(failure).__name__}: {failure}".strip()
        print(f"run stopped: {error}", flush=True)
    except KeyboardInterrupt:
        folder.set_status("stopped", _last_step(folder), steps)
        raise
    finally:
        _end(crew, placement, tracker)
    resumed_after = checkpoint.progress.step if checkpoint else None
    table = final_rows(_metric_rows(folder), time.time() - started, resumed_after)
    return _summarise(folder, steps, table, error)


def _metric_rows(folder: RunFolder) -> list[dict[str, Any]]:
    return list(read_rows(folder.metrics)) if folder.metrics.exists() else []


def _last_step(folder: RunFolder) -> int:
    rows = _metric_rows(folder)
    return int(rows[-1]["step"]) if rows else 0


def _train(
    job: Job, crew: Crew, folder: RunFolder, checkpoint: Checkpoint | None, tracker: Tracker
) -> None:
    config = job.config
    publisher = Publisher(
        crew.learner,
        crew.rollouts,
        job.probe_ids,
        config.rollout.probe_tolerance,
        config.rollout.publish_deadline_s,
    )
    publisher.prove(config.run.seed)
    if config.discovery.user_adapter:
        frozen = read_adapter(Path(config.discovery.user_adapter), USER_ADAPTER_VERSION)
        publisher.load_frozen(frozen)
    progress = (
        _continued(checkpoint.progress)
        if checkpoint
        else Progress(0, 0, 0, config.run.seed, config.learner.world_size, (), ())
    )
    printer = StepPrinter(config.train.steps)

    def on_step(row: Mapping[str, Any]) -> None:
        printer.print(row)
        tracker.log(row["step"], row)

    folder.set_status("rollout", progress.step, config.train.steps)
    domains = {task.id: task.domain for task in job.tasks}
    TrainingLoop(config, crew, publisher, folder, domains, progress, on_step).run()


def _continued(progress: Progress) -> Progress:
    """Return the checkpoint's progress under a new lineage: version names are never reused."""
    return Progress(
        progress.step,
        progress.updates,
        progress.lineage + 1,
        progress.seed,
        progress.world_size,
        progress.trained,
        progress.failed,
        progress.failures,
    )


def _open_folder(config: Config, checkpoint: Checkpoint | None) -> RunFolder:
    if checkpoint is not None:
        settled = {*checkpoint.progress.trained, *checkpoint.progress.failed}
        return RunFolder.reopen(config, checkpoint.progress.step, settled)
    if not config.run.dir:
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        config.run.dir = str(Path("runs") / f"{config.run.name}-{stamp}")
    config.run.dir = str(Path(config.run.dir).absolute())
    return RunFolder.create(config)


def _end(crew: Crew | None, placement: Placement, tracker: Tracker | None) -> None:
    if crew is not None:
        crew.end()
    placement.remove()
    if tracker is not None:
        tracker.finish()


def _summarise(folder: RunFolder, steps: int, table: Sequence[tuple[str, str]], error: str) -> int:
    done = _last_step(folder)
    status = "failed" if error else "finished"
    folder.set_summary(
        {
            "status": status,
            "steps": done,
            "rows": [list(row) for row in table],
            "run_dir": str(folder.folder),
            "error": error or None,
        }
    )
    folder.set_status(status, done, steps, error)
    print_rows(table)
    print(f"run folder: {folder.folder}", flush=True)
    return 1 if error else 0


def _probe_ids(tokenizer: "PreTrainedTokenizerBase") -> tuple[int, ...]:
    return tuple(tokenizer(_PROBE_TEXT)["input_ids"])[:_PROBE_TOKENS]


def connect(config: Config) -> None:
    """Connect to Ray; raise :class:`actors.cluster.ClusterError` when it does not answer."""
    cluster.connect(config.cluster)
