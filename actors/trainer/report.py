"""What a run prints: one line a step, and a table at the end."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


class StepPrinter:
    """Prints one plain line a step, with the time left."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._first: tuple[float, int] | None = None

    def print(self, row: Mapping[str, Any]) -> None:
        """Print the line of one step."""
        now = time.monotonic()
        left = ""
        if self._first is None:
            self._first = (now, row["step"])
        elif row["step"] > self._first[1]:
            pace = (now - self._first[0]) / (row["step"] - self._first[1])
            left = f"  left {pace * (self._steps - row['step']):.0f} s"
        seconds = row["seconds"]
        print(
            f"step {row['step']}/{self._steps}"
            f"  reward {_number(row['reward_mean'], '.3f')}"
            f"  Discover {_number(row['discover'], '.1f')}"
            f"  loss {_number(row['loss'], '.4f')}"
            f"  groups {row['groups_informative']}+{row['groups_uninformative']}"
            f"+{row['groups_failed']}"
            f"  mismatch KL {_number(row['mismatch_kl'], '.1e')}"
            f"  tokens {row['trained_tokens']}/{row['generated_tokens']}"
            f"  wait {seconds['wait']:.1f} s train {seconds['train']:.1f} s"
            f" publish {seconds['publish']:.1f} s{left}",
            flush=True,
        )


def final_rows(
    rows: Sequence[Mapping[str, Any]], seconds: float, resumed_after: int | None = None
) -> list[tuple[str, str]]:
    """Return the summary's (label, value) rows.

    ``rows`` are the whole run's; ``seconds`` are of this process alone, which went on after step
    ``resumed_after``.
    """
    since = "" if resumed_after is None else f", since resuming after step {resumed_after}"
    if not rows:
        return [("steps", "0"), (f"seconds{since}", f"{seconds:.0f}")]
    first, last = rows[0], rows[-1]
    return [
        ("steps", str(last["step"])),
        ("policy version", str(last["policy_version"])),
        ("reward, first → last step", _pair(first, last, "reward_mean", ".3f")),
        ("Discover, first → last step", _pair(first, last, "discover", ".1f")),
        ("groups informative / uninformative / failed", _groups(rows)),
        *_by_length(rows),
        ("tokens trained / generated", _tokens(rows)),
        ("largest mismatch KL", _number(_largest(rows, "mismatch_kl"), ".1e")),
        ("failures", _failures(last["failures"])),
        (f"seconds{since}", f"{seconds:.0f}"),
    ]


def print_rows(rows: Sequence[tuple[str, str]]) -> None:
    """Print the summary table."""
    table = Table(show_header=False)
    for label, value in rows:
        table.add_row(Text(label), Text(value))  # brackets are no markup here
    Console().print(table)


def _number(value: float | None, form: str) -> str:
    return "n/a" if value is None else format(value, form)


def _pair(first: Mapping[str, Any], last: Mapping[str, Any], name: str, form: str) -> str:
    return f"{_number(first[name], form)} → {_number(last[name], form)}"


def _sum(rows: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)


def _tokens(rows: Sequence[Mapping[str, Any]]) -> str:
    return f"{_sum(rows, 'trained_tokens')} / {_sum(rows, 'generated_tokens')}"


def _groups(rows: Sequence[Mapping[str, Any]]) -> str:
    kinds = ("groups_informative", "groups_uninformative", "groups_failed")
    return " / ".join(str(_sum(rows, kind)) for kind in kinds)


def _by_length(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Say how many groups taught brevity alone, where there are any."""
    count = _sum(rows, "groups_informative_by_length_only")
    return [("of the informative, by length alone", str(count))] if count else []


def _largest(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return max(values, default=None)


def _failures(failures: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(failures.items())) or "none"
