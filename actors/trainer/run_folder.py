"""A run's folder: resolved configuration, metrics, episodes, status, summary, checkpoints."""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rl.config.errors import wrong
from rl.config.load import RESOLVED_CONFIG, config_to_yaml
from rl.config.paths import CHECKPOINTS
from rl.config.schema import Config
from rl.episode.jsonl import append_episode, append_row, truncate_rows
from rl.episode.records import Episode


class RunFolder:
    """The only writer of a run's files; every row is on disk when a call returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metrics = folder / "metrics.jsonl"
        self.episodes = folder / "episodes.jsonl"
        self.checkpoints = folder / CHECKPOINTS

    @classmethod
    def create(cls, config: Config) -> "RunFolder":
        """Make the folder of a new run; with ``run.overwrite`` one that holds a run is emptied.

        Raises:
            ConfigError: there is something in the folder that may not be removed.
        """
        folder = Path(config.run.dir)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise wrong("run.dir", folder, f"cannot be made: {error.strerror}") from None
        if config.run.overwrite and (folder / RESOLVED_CONFIG).is_file():
            _empty(folder)
        if any(folder.iterdir()):
            raise wrong("run.dir", folder, "expected a new or empty folder")
        run = cls(folder)
        run.checkpoints.mkdir()
        run._write_config(config)
        return run

    @classmethod
    def reopen(cls, config: Config, step: int, settled: set[int]) -> "RunFolder":
        """Open ``run.resume`` to continue after ``step``; rows of later work are dropped.

        The folder's configuration becomes the continued run's, so that it says what runs there.

        ``settled`` are the orders of episodes that the checkpoint counts as trained or failed:
        the others will be played again.
        """
        folder = Path(config.run.resume)
        run = cls(folder)
        # As if it had been started with these values: what continued it is not part of the run.
        run._write_config(replace(config, run=replace(config.run, dir=str(folder), resume="")))
        truncate_rows(run.metrics, lambda row: row["step"] <= step)
        truncate_rows(run.episodes, lambda row: row["id"]["order"] in settled)
        (folder / "summary.json").unlink(missing_ok=True)
        return run

    def add_episodes(self, episodes: Sequence[Episode]) -> None:
        """Record finished episodes."""
        for episode in episodes:
            append_episode(self.episodes, episode)

    def add_metrics(self, row: Mapping[str, Any]) -> None:
        """Record one step."""
        append_row(self.metrics, row)

    def set_status(self, phase: str, step: int, steps: int, message: str = "") -> None:
        """Say what the run is doing, for whoever watches the folder."""
        status = {
            "phase": phase,
            "step": step,
            "steps": steps,
            "message": message,
            "time": time.time(),
        }
        self._replace("status.json", status)

    def set_summary(self, summary: Mapping[str, Any]) -> None:
        """Write what the run came to."""
        self._replace("summary.json", summary)

    def _write_config(self, config: Config) -> None:
        self._replace_text(RESOLVED_CONFIG, config_to_yaml(config))

    def _replace(self, name: str, content: Mapping[str, Any]) -> None:
        self._replace_text(name, json.dumps(content, indent=2) + "\n")

    def _replace_text(self, name: str, text: str) -> None:
        fresh = self.folder / f".{name}.new"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self.folder / name)


def _empty(folder: Path) -> None:
    """Remove what is in ``folder``; the folder itself may be a link or a mounted disk."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
