"""Following a submission: whose lines are shown, and how a failed one is explained."""

import subprocess
import sys
import threading

import pytest

from launch.dashboard import Dashboard, DashboardError, DashboardGoneError, JobState
from launch.ray_job import EXCLUDES, UPLOADED, Job, JobError, _read, new_submission_id

CLIENT_OUTPUT = """\
2026-11-30 22:51:34,297\tINFO dashboard_sdk.py:371 -- Uploading package.
2026-11-30 22:51:38,073\tSUCC cli.py:67 -- Job 'a' submitted successfully
2026-11-30 22:51:38,101\tINFO cli.py:351 -- Tailing logs until the job exits:
\x1b[36mstep 1\x1b[0m
step 2
2026-11-30 22:51:47,432\tERR cli.py:75 -- Job 'a' failed
2026-11-30 22:51:47,439\tINFO cli.py:89 -- Status message: last available logs:
step 2
"""


class FakeDashboard(Dashboard):
    """Answers with the given states in turn, the last one for ever."""

    def __init__(self, *states):
        super().__init__(port=1)
        object.__setattr__(self, "states", list(states))
        object.__setattr__(self, "stopped", [])
        object.__setattr__(self, "refusals", [])  # what the first requests to stop meet

    def job(self, submission_id, timeout_s=5.0):
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return state

    def stop_job(self, submission_id, timeout_s=5.0):
        self.stopped.append(submission_id)
        if self.refusals:
            raise self.refusals.pop(0)
        return self.states[0] is not None


def _job(tmp_path, dashboard, script):
    client = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    job = Job(dashboard, "a", client, tmp_path / "log")
    threading.Thread(target=_read, args=(client, job._lines), daemon=True).start()
    return job


def _state(status, exit_code=None):
    return JobState(status, "", exit_code)


def test_only_the_jobs_own_lines_are_passed_on_and_all_are_kept(tmp_path):
    job = _job(tmp_path, FakeDashboard(_state("FAILED", 2)), f"print({CLIENT_OUTPUT!r}, end='')")
    lines, ticks = [], []
    job.follow(lines.append, lambda: ticks.append(1))
    assert lines == ["step 1", "step 2"]
    assert ticks
    kept = (tmp_path / "log").read_text()
    assert "Uploading package" in kept and "\x1b" not in kept
    assert job.outcome().exit_code == 2


def test_ticks_go_on_while_the_job_is_silent(tmp_path):
    job = _job(tmp_path, FakeDashboard(_state("SUCCEEDED")), "import time; time.sleep(1)")
    ticks = []
    job.follow(lambda line: None, lambda: ticks.append(1))
    assert len(ticks) >= 3


def test_a_failed_submission_is_explained_by_the_clients_last_line(tmp_path):
    job = _job(tmp_path, FakeDashboard(None), "print('RuntimeError: package exceeds 512 MiB')")
    job.follow(lambda line: None, lambda: None)
    with pytest.raises(JobError, match="submit failed: RuntimeError: package exceeds 512 MiB"):
        job.outcome()


def test_the_state_is_awaited_after_the_log_ends(tmp_path):
    job = _job(tmp_path, FakeDashboard(_state("RUNNING"), _state("SUCCEEDED", 0)), "")
    job.follow(lambda line: None, lambda: None)
    assert job.outcome().status == "SUCCEEDED"


def test_a_job_that_goes_on_without_log_and_a_vanished_head_are_errors_not_hangs(tmp_path):
    job = _job(tmp_path, FakeDashboard(_state("RUNNING")), "")
    job.follow(lambda line: None, lambda: None)
    with pytest.raises(JobError, match="broke off while it is RUNNING"):
        job.outcome(deadline_s=0.1)
    gone = _job(tmp_path, FakeDashboard(DashboardError("does not answer")), "")
    with pytest.raises(JobError, match="the Ray head is gone"):
        gone.outcome(deadline_s=0.1)


def test_stopping_ends_the_client_first_and_waits_for_the_job(tmp_path):
    dashboard = FakeDashboard(_state("RUNNING"), _state("RUNNING"), _state("STOPPED"))
    job = _job(tmp_path, dashboard, "import time; time.sleep(60)")
    job.stop()
    assert job.client.poll() is not None
    assert dashboard.stopped == ["a"]
    assert len(dashboard.states) == 1  # the end was seen


def test_a_head_that_is_slow_to_answer_is_asked_to_stop_the_job_again(tmp_path):
    dashboard = FakeDashboard(_state("STOPPED"))
    dashboard.refusals[:] = [DashboardError("timed out")]
    job = _job(tmp_path, dashboard, "")
    job.stop()
    assert dashboard.stopped == ["a", "a"]


def test_a_job_whose_head_is_gone_is_stopped_and_one_that_cannot_be_reached_is_not(tmp_path):
    dashboard = FakeDashboard(_state("RUNNING"))
    dashboard.refusals[:] = [DashboardGoneError("refused")]
    _job(tmp_path, dashboard, "").stop()
    assert dashboard.stopped == ["a"]
    dashboard.refusals[:] = [DashboardError("timed out")] * 3
    with pytest.raises(JobError, match="job a could not be stopped"):
        _job(tmp_path, dashboard, "").stop(deadline_s=0.7)


def test_submission_ids_are_unique_and_fit_a_url():
    first, second = new_submission_id("my run/ü"), new_submission_id("my run/ü")
    assert first != second
    assert first.startswith("my-run---")


def test_pitfall_25_only_what_a_job_imports_is_uploaded(tmp_path):
    """Ray's own walk over the checkout with our excludes, beside a stray model and a .venv."""
    from ray._private.runtime_env import packaging

    for name in (
        "rl/a.py", "rl/data/tasks/t.jsonl", "actors/learner/b.py", "launch/grpo.py",
        "configs/model/tiny.yaml", "pyproject.toml", "README.md", ".venv/bin/python", ".git/HEAD",
        "runs/x/metrics.jsonl", "models/big/model.safetensors", "tests/test_a.py", "rlx/c.py",
        "rl/__pycache__/a.pyc", ".cache/d", "data.bin",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    seen = []
    packaging._dir_travel(
        tmp_path, [packaging._get_excludes(tmp_path, EXCLUDES)], seen.append, include_gitignore=True
    )
    files = {str(path.relative_to(tmp_path)) for path in seen if path.is_file()}
    assert files == {
        "rl/a.py", "rl/data/tasks/t.jsonl", "actors/learner/b.py", "launch/grpo.py",
        "configs/model/tiny.yaml", "pyproject.toml",
    }  # fmt: skip
    assert set(UPLOADED) == {name.split("/")[0] for name in files}
