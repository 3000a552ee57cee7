"""A run's live progress: a moving line on a terminal, elsewhere lines without control codes."""

import re
import sys
from typing import Protocol, TextIO

from launch.run_folder import Progress, Summary

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_WORKER_LINE = re.compile(r"^\([^()]+ pid=\d+[^()]*\) ?(?P<text>.*)$")
_RAY_DETAIL = re.compile(r"^\d{4}-\d\d-\d\d [\d:,]+\s+(INFO|SUCC) \w+\.py:\d+ -- ")
# Ray's C++ side: no error, or the advice that its own references to the arguments already follow.
_RAY_CORE = re.compile(
    r"^\[[^\]]* ([IW] \d+ \d+\] \w+\.cc|E \d+ \d+\] core_worker\.cc:\d+: Actor with class name: )"
)
_ALARM = re.compile(r"\b(WARNING|ERROR|CRITICAL|Error|Exception|Traceback)\b")


class Display(Protocol):
    """Where the lines of the job's log and the run's progress go."""

    def log(self, line: str) -> None:
        """Show one line of the log."""

    def update(self, progress: Progress) -> None:
        """Show where the run stands; called several times a second."""

    def close(self) -> None:
        """End the live part; nothing is updated afterwards."""


def make_display(stream: TextIO | None = None) -> Display:
    """Return the live display where ``stream`` (standard output) is a terminal, else the plain."""
    output = stream or sys.stdout
    return LiveDisplay(output) if output.isatty() else PlainDisplay(output)


def clean(line: str) -> str:
    """Return a log line without terminal control codes and without what a bar overwrote."""
    return _ESCAPE.sub("", line.rstrip("\r\n")).rsplit("\r", 1)[-1]


def worth_showing(line: str) -> bool:
    """Tell whether a log line is for the screen: the driver's own, or an actor's alarm.

    Actors (their lines begin with ``(Name pid=1)``) log every detail of vLLM and DeepSpeed, and Ray
    its connections; all of that stays in the log file.
    """
    found = _WORKER_LINE.match(line)
    if found is None:
        return bool(line.strip()) and not (_RAY_DETAIL.match(line) or _RAY_CORE.match(line))
    return bool(_ALARM.search(found["text"]))


class PlainDisplay:
    """One line whenever the phase or the step changes."""

    def __init__(self, stream: TextIO) -> None:
        """Write to ``stream``."""
        self._stream = stream
        self._seen: tuple[object, ...] = ()

    def log(self, line: str) -> None:
        """Print the line as it is."""
        print(line, file=self._stream, flush=True)

    def update(self, progress: Progress) -> None:
        """Print a line when there is something new to say."""
        seen = (progress.phase, progress.message, progress.step)
        text = describe(progress)
        if seen != self._seen and text:
            print(f"[progress] {text}", file=self._stream, flush=True)
        self._seen = seen

    def close(self) -> None:
        """Nothing to end."""


class LiveDisplay:
    """A bar with step, phase, reward, Discover, tokens/s and time left below the scrolling log."""

    def __init__(self, stream: TextIO) -> None:
        """Start the live part on ``stream``, a terminal."""
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            SpinnerColumn(),
            BarColumn(bar_width=12),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(file=stream, highlight=False),
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None)
        self._bar.start()

    def log(self, line: str) -> None:
        """Print the line above the bar."""
        self._bar.console.print(line, markup=False, soft_wrap=True)

    def update(self, progress: Progress) -> None:
        """Move the bar."""
        self._bar.update(
            self._task,
            # Two short lines fit a terminal of 80 columns; one long line would be cut.
            description="\n".join(" · ".join(p) for p in (where(progress), values(progress)) if p)
            or "starting",
            total=progress.steps,
            completed=progress.step or 0,
        )

    def close(self) -> None:
        """Remove the bar."""
        self._bar.stop()


def describe(progress: Progress) -> str:
    """Return the progress in one line; what is not known yet is left out."""
    return " · ".join(where(progress) + values(progress))


def where(progress: Progress) -> list[str]:
    """Return the step and the phase in words."""
    parts = []
    if progress.steps is not None:
        parts.append(f"step {progress.step or 0}/{progress.steps}")
    if progress.phase:
        parts.append(f"{progress.phase}{f' ({progress.message})' if progress.message else ''}")
    return parts


def values(progress: Progress) -> list[str]:
    """Return the last step's reward, Discover and speed, and the time left, in words."""
    parts = []
    if progress.reward is not None:
        parts.append(f"reward {progress.reward:.3f}")
    if progress.discover is not None:
        parts.append(f"Discover {progress.discover:.3f}")
    if progress.tokens_per_s is not None:
        parts.append(f"{progress.tokens_per_s:.0f} tokens/s")
    if progress.seconds_left is not None:
        parts.append(f"{duration(progress.seconds_left)} left")
    return parts


def duration(seconds: float) -> str:
    """Return a duration as people say it: ``40 s``, ``3 min``, ``2 h 05 min``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def print_summary(summary: Summary | None, run_folder: str, stream: TextIO | None = None) -> None:
    """Print the summary table and where the run's folder is."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=stream or sys.stdout, highlight=False)
    if summary is None:
        console.print("The run left no summary.", markup=False)
    else:
        table = Table(title=f"Run {summary.status}", show_header=False, title_justify="left")
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for label, value in summary.rows:
            table.add_row(*(_literal(text) for text in (label, value)))
        console.print(table)
        if summary.error:
            console.print(f"error: {summary.error}", markup=False, soft_wrap=True)
    console.print(f"run folder: {run_folder}", markup=False, soft_wrap=True)


def _literal(text: str) -> str:
    from rich.markup import escape

    return escape(text)
