"""wandb logging by one process; the run's ``metrics.jsonl`` stays the truth."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl.config.errors import ConfigError, wrong
from rl.config.schema import RunConfig


def check_tracker(config: RunConfig) -> None:
    """Check that wandb can be used as configured; ask its server only when logging online.

    Raises:
        ConfigError: a project name that wandb does not take, no key, or one that is not accepted.
    """
    if config.wandb_mode == "disabled":
        return
    import wandb

    try:
        wandb.Settings(project=config.wandb_project)
    except (wandb.Error, ValueError) as error:
        raise wrong("run.wandb_project", config.wandb_project, _first_line(error)) from None
    if config.wandb_mode != "online":
        return
    overruled = os.environ.get("WANDB_MODE", "online")
    if overruled != "online":  # wandb then claims to have no key
        raise _not_online(f"the environment says WANDB_MODE={overruled}")
    try:
        known = wandb.login(prompt=False, verify=True)
    except wandb.Error as error:
        raise _not_online(_first_line(error)) from None
    if not known:
        raise _not_online("wandb has no key")


def _not_online(reason: str) -> ConfigError:
    return wrong(
        "run.wandb_mode",
        "online",
        f"{reason}; run `wandb login` or set WANDB_API_KEY, or expected offline or disabled",
    )


class Tracker:
    """Sends each step's row to wandb, offline by default, into the run's folder.

    Raises :class:`ConfigError` when wandb does not start.
    """

    def __init__(self, config: RunConfig, folder: Path, settings: Mapping[str, Any]) -> None:
        self._run: Any = None
        if config.wandb_mode == "disabled":
            return
        import wandb

        try:
            self._run = wandb.init(
                project=config.wandb_project,
                name=folder.name,
                dir=str(folder),
                mode="online" if config.wandb_mode == "online" else "offline",
                config=dict(settings),
                settings=wandb.Settings(silent=True, console="off"),
            )
        except wandb.Error as error:
            reason = f"wandb does not start: {_first_line(error)}"
            raise wrong("run.wandb_mode", config.wandb_mode, reason) from error

    def log(self, step: int, row: Mapping[str, Any]) -> None:
        """Log the numbers of a row."""
        if self._run is not None:
            self._run.log(dict(_numbers(row)), step=step)

    def finish(self) -> None:
        """Flush and close; a wandb process that was ended before us is said, not raised."""
        if self._run is None:
            return
        import wandb

        try:
            self._run.finish()
        except (wandb.Error, OSError) as error:
            print(f"wandb did not close its log: {_first_line(error)}", flush=True)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _numbers(row: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in row.items():
        if isinstance(value, Mapping):
            found += _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and value is not None:
            found.append((f"{prefix}{name}", float(value)))
    return found
