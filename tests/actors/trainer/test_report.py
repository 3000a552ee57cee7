"""What a run prints: exact lines for known rows, "n/a" for what is missing."""

import pytest

from actors.trainer import report
from actors.trainer.report import StepPrinter, final_rows, print_rows


def row(step, **changes):
    return {
        "step": step,
        "policy_version": f"assistant@0.{step}",
        "reward_mean": 0.1234,
        "discover": 42.0,
        "loss": -0.01234,
        "groups_informative": 3,
        "groups_informative_by_length_only": 0,
        "groups_uninformative": 2,
        "groups_failed": 1,
        "mismatch_kl": 1.26e-7,
        "trained_tokens": 96,
        "generated_tokens": 240,
        "failures": {},
        "seconds": {"wait": 10.04, "train": 5.0, "publish": 0.26},
    } | changes


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    times = []
    monkeypatch.setattr(report.time, "monotonic", lambda: times.pop(0))
    return times


def test_a_step_is_one_line(capsys, clock):
    clock[:] = [100.0]
    StepPrinter(6).print(row(1))
    assert capsys.readouterr().out == (
        "step 1/6  reward 0.123  Discover 42.0  loss -0.0123  groups 3+2+1  mismatch KL 1.3e-07"
        "  tokens 96/240  wait 10.0 s train 5.0 s publish 0.3 s\n"
    )


def test_what_is_missing_reads_so(capsys, clock):
    clock[:] = [100.0]
    missing = dict.fromkeys(("reward_mean", "discover", "loss", "mismatch_kl"))
    StepPrinter(6).print(row(1, **missing))
    assert capsys.readouterr().out.startswith(
        "step 1/6  reward n/a  Discover n/a  loss n/a  groups 3+2+1  mismatch KL n/a  tokens"
    )


def test_the_time_left_follows_the_pace_since_the_first_line(capsys, clock):
    """Of a resumed run too: steps 4 to 6 took 20 s, so the 4 left take 40 s."""
    clock[:] = [100.0, 120.0]
    printer = StepPrinter(10)
    printer.print(row(4))
    printer.print(row(6))
    first, second = capsys.readouterr().out.splitlines()
    assert " left " not in first
    assert second.endswith("publish 0.3 s  left 40 s")


def test_the_summary_by_hand():
    rows = [
        row(1, mismatch_kl=None, failures={"deadline": 1}),
        row(2, reward_mean=None, groups_failed=0, failures={"judge_failed": 2, "deadline": 1}),
        row(3, reward_mean=0.5, discover=None, mismatch_kl=2e-3, failures={"deadline": 1}),
    ]
    assert final_rows(rows, 61.4) == [
        ("steps", "3"),
        ("policy version", "assistant@0.3"),
        ("reward, first → last step", "0.123 → 0.500"),
        ("Discover, first → last step", "42.0 → n/a"),
        ("groups informative / uninformative / failed", "9 / 6 / 2"),
        ("tokens trained / generated", "288 / 720"),
        ("largest mismatch KL", "2.0e-03"),
        ("failures", "deadline 1"),  # counted since the start, so the last row has them all
        ("seconds", "61"),
    ]
    # A resumed run's seconds are of its last part only, and say so.
    assert final_rows(rows, 61.4, resumed_after=2)[-1] == (
        "seconds, since resuming after step 2",
        "61",
    )


def test_groups_that_only_length_told_apart_are_named_where_there_are_any():
    rows = [row(1, groups_informative_by_length_only=2), row(2), row(3)]
    rows[2]["groups_informative_by_length_only"] = 1
    made = final_rows(rows, 1.0)
    place = [label for label, _ in made].index("groups informative / uninformative / failed")
    assert made[place + 1] == ("of the informative, by length alone", "3")
    assert len(made) == len(final_rows([row(1), row(2)], 1.0)) + 1


def test_a_summary_without_a_mismatch_or_failures():
    made = dict(final_rows([row(1, mismatch_kl=None)], 1.0))
    assert (made["largest mismatch KL"], made["failures"]) == ("n/a", "none")


def test_a_run_that_made_no_step():
    assert final_rows([], 3.2) == [("steps", "0"), ("seconds", "3")]


def test_the_table_holds_every_row(capsys):
    rows = [*final_rows([row(1)], 1.0), ("[x]", "[red]a path[/red]")]
    print_rows(rows)
    out = capsys.readouterr().out
    for label, value in rows:
        assert label in out
        assert value in out
