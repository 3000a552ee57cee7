"""Reads what the trainer writes into a run's folder while it runs, and tolerates what is not there.

``metrics.jsonl`` has one object a step, ``status.json`` is rewritten as a whole, ``summary.json``
comes at the end. A line or file that is only half there counts as not there yet.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Progress:
    """Where a run stands. Unknown values are None, never 0."""

    phase: str = ""
    message: str = ""
    step: int | None = None  # finished steps
    steps: int | None = None
    reward: float | None = None
    discover: float | None = None
    tokens_per_s: float | None = None  # generated, over the last step
    seconds_left: float | None = None


@dataclass(frozen=True)
class Summary:
    """The end of a run, as the trainer sums it up."""

    status: str
    rows: tuple[tuple[str, str], ...]
    error: str


@dataclass
class RunFolder:
    """A run's folder read again and again; each row of the metrics is parsed once."""

    path: Path
    rows: list[dict[str, Any]] = field(default_factory=list)
    _offset: int = 0

    def progress(self) -> Progress:
        """Return where the run stands now."""
        self._read_new_rows()
        status = _read_object(self.path / "status.json")
        last = self.rows[-1] if self.rows else {}
        step = _number(last.get("step"))
        steps = _number(last.get("steps")) or _number(status.get("steps"))
        seconds = _step_seconds(last)
        generated = _number(last.get("generated_tokens"))
        return Progress(
            phase=str(status.get("phase") or ""),
            message=str(status.get("message") or ""),
            step=None if step is None else int(step),
            steps=None if steps is None else int(steps),
            reward=_number(last.get("reward_mean")),
            discover=_number(last.get("discover")),
            tokens_per_s=generated / seconds if generated is not None and seconds else None,
            seconds_left=self._seconds_left(step, steps),
        )

    def summary(self) -> Summary | None:
        """Return the summary, or None while there is none."""
        found = _read_object(self.path / "summary.json")
        if not found:
            return None
        rows = [row for row in found.get("rows") or [] if isinstance(row, list) and len(row) == 2]
        return Summary(
            status=str(found.get("status") or ""),
            rows=tuple((str(label), str(value)) for label, value in rows),
            error=str(found.get("error") or ""),
        )

    def how_to_continue(self) -> str:
        """Return, for a run that was stopped, the arguments that go on with it or begin again."""
        if any((self.path / "checkpoints").glob("step-*")):
            return f"run.resume={self.path} continues from its last checkpoint"
        if self.path.is_dir() and any(self.path.iterdir()):
            return f"no checkpoint yet; run.dir={self.path} run.overwrite=true begins again"
        return "nothing was written"

    def _seconds_left(self, step: float | None, steps: float | None) -> float | None:
        """Remaining steps at the mean pace of the last five."""
        paces = [pace for row in self.rows[-5:] if (pace := _step_seconds(row))]
        if step is None or steps is None or not paces:
            return None
        return max(0.0, steps - step) * sum(paces) / len(paces)

    def _read_new_rows(self) -> None:
        file = self.path / "metrics.jsonl"
        try:
            if file.stat().st_size < self._offset:  # a resumed run dropped later rows
                self._offset = 0
                self.rows.clear()
            with file.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]  # the last line may still be being written
        self._offset += len(whole)
        self.rows.extend(row for line in whole.splitlines() if (row := _parse(line)))


def _step_seconds(row: dict[str, Any]) -> float | None:
    """Return how long a step took: its phases follow one another, so their sum is the step."""
    seconds = row.get("seconds")
    if not isinstance(seconds, dict):
        return None
    phases = [number for value in seconds.values() if (number := _number(value)) is not None]
    return sum(phases) or None


def _number(value: object) -> float | None:
    """Return a JSON number as it is and anything else, true and false included, as None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _read_object(file: Path) -> dict[str, Any]:
    try:
        return _parse(file.read_bytes())
    except FileNotFoundError:
        return {}


def _parse(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
