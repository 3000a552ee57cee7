"""What is shown, and that a pipe gets no control codes."""

import io

import pytest

from launch.display import (
    LiveDisplay,
    PlainDisplay,
    clean,
    describe,
    duration,
    make_display,
    print_summary,
    worth_showing,
)
from launch.run_folder import Progress, Summary

FULL = Progress(
    phase="rollout",
    message="1/2",
    step=2,
    steps=6,
    reward=0.25,
    discover=1.5,
    tokens_per_s=85.4,
    seconds_left=250.0,
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_one_line_holds_what_is_known():
    assert describe(FULL) == (
        "step 2/6 · rollout (1/2) · reward 0.250 · Discover 1.500 · 85 tokens/s · 4 min left"
    )
    assert describe(Progress(phase="start")) == "start"
    assert describe(Progress()) == ""
    assert "reward 0.000" in describe(Progress(reward=0.0))  # zero is a value, None is not


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (60, "1 min"), (200, "3 min"), (3600, "1 h 00 min"),
     (7500, "2 h 05 min")],
)  # fmt: skip
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_a_pipe_gets_plain_lines_and_only_news():
    output = io.StringIO()
    display = make_display(output)
    assert isinstance(display, PlainDisplay)
    for progress in (Progress(), FULL, FULL, FULL):
        display.update(progress)
    display.log("a line")
    display.close()
    assert output.getvalue() == f"[progress] {describe(FULL)}\na line\n"


def test_a_terminal_gets_the_bar_and_the_log_above_it(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    output = Terminal()
    display = make_display(output)
    assert isinstance(display, LiveDisplay)
    display.update(FULL)
    display.log("[not markup] a line")
    display.close()
    assert "step 2/6" in output.getvalue()
    assert "[not markup] a line" in output.getvalue()
    assert "\x1b[" in output.getvalue()


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("step 1 done", True),
        ("", False),
        ("(RolloutWorker pid=12) INFO 11-30 loading weights", False),
        ("(RolloutWorker pid=12, ip=10.0.0.1) Traceback (most recent call last):", True),
        ("(Learner pid=7) WARNING: gradient is not finite", True),
        ("(Learner pid=7) ValueError: x", False),  # inside the traceback, which Ray raises again
        ("2026-11-30 22:51:47,417\tINFO worker.py:520 -- Connecting to Ray", False),
        ("2026-11-30 22:51:47,417\tWARNING worker.py:520 -- out of memory", True),
        ("[2026-11-30 22:51:47,417 W 8 8] core_worker.cc:2465: slow call", False),
        ("[2026-11-30 22:51:47,417 E 8 8] core_worker.cc:2465: Actor with class name: 'A'", False),
        ("[2026-11-30 22:51:47,417 E 8 8] core_worker.cc:2465: lost the raylet", True),
    ],
)
def test_actors_details_stay_in_the_log_file(line, shown):
    assert worth_showing(line) is shown


def test_control_codes_and_overwritten_bars_are_removed():
    assert clean("\x1b[36m(Learner pid=7)\x1b[0m ready\r\n") == "(Learner pid=7) ready"
    assert clean("10%\r50%\r100%\n") == "100%"


def test_summary_table_and_folder_without_control_codes():
    output = io.StringIO()
    print_summary(Summary("finished", (("Discover [all]", "1.25"),), ""), "runs/x", output)
    text = output.getvalue()
    assert "Run finished" in text and "Discover [all]" in text and "1.25" in text
    assert text.splitlines()[-1] == "run folder: runs/x"
    assert "\x1b" not in text


def test_a_failed_run_names_its_error_and_a_missing_summary_is_said():
    output = io.StringIO()
    print_summary(Summary("failed", (), "adapter mismatch"), "runs/x", output)
    assert "error: adapter mismatch" in output.getvalue()
    output = io.StringIO()
    print_summary(None, "runs/x", output)
    assert output.getvalue() == "The run left no summary.\nrun folder: runs/x\n"
