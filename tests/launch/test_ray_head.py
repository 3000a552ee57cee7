"""Starting and stopping a head: the parts that need no Ray (see test_local_stack for the whole)."""

import inspect
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch.ray_head import (
    HeadError,
    StartedHead,
    await_head,
    ensure_token,
    free_ports,
    head_environment,
    stop_head,
)
from launch.ray_job import Job


def _head(tmp_path, script, log=""):
    """A process group that stands for a head."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "log").write_text(log)
    process = subprocess.Popen(["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE)
    return StartedHead(process, free_ports(1)[0], folder, tmp_path / "log")


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return state != "Z"


def test_the_jobs_python_is_this_one_and_no_other_cluster_is_joined():
    environment = head_environment({"PATH": "/usr/bin", "RAY_ADDRESS": "10.0.0.1:1", "KEPT": "x"})
    first, second = environment["PATH"].split(os.pathsep)
    assert first == str(Path(sys.executable).parent)
    assert second == "/usr/bin"
    assert "RAY_ADDRESS" not in environment
    assert environment["KEPT"] == "x"
    assert environment["RAY_AUTH_MODE"] == "token"


def test_a_stopped_job_has_time_to_remove_its_adapters():
    """Ray's own 3 seconds are too few; whoever stops a job waits longer than it may take."""
    environment = head_environment({"RAY_JOB_STOP_WAIT_TIME_S": "3"})
    assert environment["RAY_JOB_STOP_WAIT_TIME_S"] == "20"
    assert inspect.signature(Job.stop).parameters["deadline_s"].default > 20


def test_a_token_is_made_once_and_for_the_user_alone(tmp_path, monkeypatch):
    path = tmp_path / "ray" / "token"
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(path))
    ensure_token()
    made = path.read_text()
    assert len(made) == 64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ensure_token()
    assert path.read_text() == made


def test_free_ports_differ():
    assert len(set(free_ports(5))) == 5


def test_a_head_that_ends_is_reported_with_its_last_line(tmp_path):
    head = _head(tmp_path, "exit 3", log="starting\nport 6379 is in use\n\n")
    head.process.wait(timeout=10)
    with pytest.raises(HeadError, match="status 3: port 6379 is in use"):
        await_head(head, deadline_s=5.0)


def test_a_head_that_does_not_answer_is_given_up(tmp_path):
    head = _head(tmp_path, "exec sleep 60")
    started = time.monotonic()
    with pytest.raises(HeadError, match="did not answer within 1 s"):
        await_head(head, deadline_s=1.0)
    assert time.monotonic() - started < 5.0
    stop_head(head)
    assert not _alive(head.process.pid)


def test_stopping_ends_the_whole_group_and_removes_its_folder(tmp_path):
    head = _head(tmp_path, "trap 'kill $!; exit 0' TERM; sleep 60 & echo $!; wait")
    child = int(head.process.stdout.readline())
    stop_head(head, deadline_s=10.0)
    assert not _alive(head.process.pid) and not _alive(child)
    assert not head.folder.exists()


def test_a_head_that_ignores_the_request_is_killed_with_its_children(tmp_path):
    head = _head(tmp_path, "trap '' TERM; sleep 60 & echo $!; wait; sleep 60")
    child = int(head.process.stdout.readline())
    stop_head(head, deadline_s=0.5, keep_folder=True)
    assert not _alive(head.process.pid) and not _alive(child)
    assert head.folder.exists()


def test_stopping_leaves_other_processes_alone(tmp_path):
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        stop_head(_head(tmp_path, "exec sleep 60"))
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
