"""Checks a run's arguments before anything starts, and makes them fit for another working folder.

A job runs in a copy of the checkout, so every path that the user means relative to the current
folder becomes absolute; the run's folder is chosen here, so that its progress can be followed.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rl.config.errors import ConfigError
from rl.config.load import load_config
from rl.config.overrides import split_arguments
from rl.config.schema import Config
from rl.config.validate import validate, validate_paths
from rl.data.tasks import TaskFileError, load_tasks

LOGS = Path("runs")  # below the current folder; a log lies beside the run's folder, never in it


@dataclass(frozen=True)
class RunPlan:
    """A checked run: its folder, the entry point's arguments, the job's environment variables."""

    run_dir: Path
    arguments: tuple[str, ...]
    job_variables: dict[str, str]
    logs: Path

    def log_file(self, suffix: str) -> Path:
        """Return where a log of this run goes."""
        return self.logs / f"{self.run_dir.name}.{suffix}"


def plan_run(arguments: Sequence[str], folder: Path) -> RunPlan:
    """Check ``key=value`` arguments given in ``folder`` and return what to submit.

    Raises:
        ConfigError: the configuration cannot run; one clear line, nothing was started.
    """
    config = load_config(arguments)
    validate(config)
    validate_paths(config)
    _check_tasks(config)
    given = split_arguments(arguments)
    if config.run.resume:
        run_dir = _absolute(config.run.resume, folder)
        given["run.resume"] = str(run_dir)
    else:
        default = LOGS / f"{config.run.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        run_dir = _absolute(config.run.dir or str(default), folder)
        given |= _absolute_paths(config, folder) | {"run.dir": str(run_dir)}
    cache = os.environ.get("DISCERN_CACHE")
    return RunPlan(
        run_dir=run_dir,
        arguments=tuple(f"{key}={value}" for key, value in given.items()),
        job_variables={"DISCERN_CACHE": str(_absolute(cache, folder))} if cache else {},
        logs=folder / LOGS,
    )


def _check_tasks(config: Config) -> None:
    """Read the user's own task files, so that a fault is told before a cluster starts."""
    if config.tasks.files:
        try:
            load_tasks([Path(file) for file in config.tasks.files])
        except TaskFileError as error:
            raise ConfigError(str(error)) from None


def _absolute_paths(config: Config, folder: Path) -> dict[str, str]:
    """Return the arguments that name files or folders, with absolute paths."""
    changed = {}
    if config.tasks.files:
        files = ",".join(str(_absolute(file, folder)) for file in config.tasks.files)
        changed["tasks.files"] = f"[{files}]"
    if config.discovery.user_adapter:
        changed["discovery.user_adapter"] = str(_absolute(config.discovery.user_adapter, folder))
    if config.model.source == "path" and _absolute(config.model.path, folder).is_dir():
        changed["model.path"] = str(_absolute(config.model.path, folder))  # else a hub id
    return changed


def _absolute(path: str, folder: Path) -> Path:
    return Path(os.path.normpath(folder / Path(path).expanduser()))
