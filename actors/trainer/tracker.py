"""wandb logging by one process; the run's ``metrics.jsonl`` stays the truth."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl.config.schema import RunConfig


class Tracker:
    """Sends each step's row to wandb, offline by default, into the run's folder."""

    def __init__(self, config: RunConfig, folder: Path, settings: Mapping[str, Any]) -> None:
        self._run: Any = None
        if config.wandb_mode == "disabled":
            return
        import wandb

        self._run = wandb.init(
            project=config.wandb_project,
            name=folder.name,
            dir=str(folder),
            mode="online" if config.wandb_mode == "online" else "offline",
            config=dict(settings),
            settings=wandb.Settings(silent=True, console="off"),
        )

    def log(self, step: int, row: Mapping[str, Any]) -> None:
        """Log the numbers of a row."""
        if self._run is not None:
            self._run.log(dict(_numbers(row)), step=step)

    def finish(self) -> None:
        """Flush and close."""
        if self._run is not None:
            self._run.finish()


def _numbers(row: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in row.items():
        if isinstance(value, Mapping):
            found += _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and value is not None:
            found.append((f"{prefix}{name}", float(value)))
    return found
