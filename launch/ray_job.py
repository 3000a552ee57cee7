"""One `ray job submit` on a head of this machine: submitted, followed, stopped, its exit status."""

import contextlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launch.dashboard import Dashboard, DashboardError, DashboardGoneError, JobState
from launch.display import clean
from launch.ray_head import JOB_STOP_SECONDS

# Only what a job imports is uploaded, so that a stray model or data folder in the checkout neither
# slows a submission nor exceeds Ray's limit (512 MiB). gitignore syntax: all out, then these in.
UPLOADED = ("rl", "actors", "configs", "launch", "pyproject.toml")
EXCLUDES = ["/*", "!/.", *(f"!/{name}" for name in UPLOADED), "__pycache__"]

_FOLLOWING = "Tailing logs until the job exits"
_CLIENT_LINE = re.compile(r"^\d{4}-\d\d-\d\d [\d:,]+\s+(INFO|SUCC|ERR|WARN\w*) cli\.py:\d+ --")


class JobError(Exception):
    """The job could not be submitted, or was lost; the message is one clear line."""


@dataclass
class Job:
    """A submission by the ``ray`` command, whose output is read by a thread."""

    dashboard: Dashboard
    submission_id: str
    client: subprocess.Popen[str]
    log: Path  # every line of the job, whatever is shown
    _lines: "queue.Queue[str | None]" = field(default_factory=queue.Queue)

    def follow(self, on_line: Callable[[str], None], on_tick: Callable[[], None]) -> None:
        """Pass on each line of the job's output until it ends; tick about five times a second."""
        with self.log.open("w", encoding="utf-8") as log:
            inside = False
            while True:
                try:
                    line = self._lines.get(timeout=0.2)
                except queue.Empty:
                    on_tick()
                    continue
                if line is None:
                    break
                log.write(line + "\n")
                log.flush()
                if _CLIENT_LINE.match(line):  # the client's own words around the job's output
                    inside = _FOLLOWING in line
                elif inside:
                    on_line(line)
        on_tick()

    def outcome(self, deadline_s: float = 30.0) -> JobState:
        """Return the ended job's state.

        Raises:
            JobError: the submission failed, or the job does not end within the deadline.
        """
        state = self._await_end(deadline_s)
        if state is None:
            raise JobError(f"ray job submit failed: {self._complaint()} (log: {self.log})")
        if not state.ended:
            raise JobError(
                f"the log of job {self.submission_id} broke off while it is {state.status} "
                f"(log: {self.log})"
            )
        return state

    def stop(self, deadline_s: float = JOB_STOP_SECONDS + 10.0) -> None:
        """Stop the job if it was submitted, and the client; return once it has ended.

        Its driver gets JOB_STOP_SECONDS before the head kills it; the rest is the head's.

        Raises:
            JobError: the head did not take the request before the deadline.
        """
        self.client.terminate()  # first, so that nothing is submitted after the stop
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.client.wait(timeout=5.0)
        give_up = time.monotonic() + deadline_s
        while time.monotonic() < give_up:
            try:
                if self.dashboard.stop_job(self.submission_id):
                    self._await_end(deadline_s)
                return
            except DashboardGoneError:  # and the job with it
                return
            except DashboardError:  # a head whose machine loads models is slow to answer
                time.sleep(0.5)
        raise JobError(f"job {self.submission_id} could not be stopped (log: {self.log})")

    def _await_end(self, deadline_s: float) -> JobState | None:
        give_up = time.monotonic() + deadline_s
        while True:
            try:
                state = self.dashboard.job(self.submission_id)
            except DashboardError as error:
                if time.monotonic() > give_up:
                    raise JobError(f"the Ray head is gone: {error} (log: {self.log})") from None
                time.sleep(0.5)
                continue
            if state is None or state.ended or time.monotonic() > give_up:
                return state
            time.sleep(0.2)

    def _complaint(self) -> str:
        """Return the last line that the client printed before it gave up."""
        lines = [line.strip() for line in self.log.read_text(encoding="utf-8").splitlines()]
        return next((line for line in reversed(lines) if line), "it printed nothing")


def submit(
    dashboard: Dashboard,
    submission_id: str,
    checkout: Path,
    entrypoint: Sequence[str],
    log: Path,
    environment: dict[str, str],
    job_variables: dict[str, str],
) -> Job:
    """Submit ``entrypoint`` with the checkout as working directory and begin to read its output.

    ``environment`` is the client's, ``job_variables`` are set for the job and all its workers.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        str(Path(sys.executable).parent / "ray"),
        "job",
        "submit",
        f"--address={dashboard.address}",
        f"--submission-id={submission_id}",
        "--working-dir=.",
        "--runtime-env-json=" + json.dumps({"excludes": EXCLUDES, "env_vars": job_variables}),
        "--log-style=record",
        "--log-color=false",
        "--",
        *entrypoint,
    ]
    own = {
        "RAY_AUTH_MODE": "token" if dashboard.token else "disabled",
        "NO_PROXY": ",".join(filter(None, [environment.get("NO_PROXY"), "127.0.0.1"])),
        "PYTHONUNBUFFERED": "1",
    }
    client = subprocess.Popen(
        command,
        cwd=checkout,
        env=environment | own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C reaches us; we stop the job, then the client
    )
    job = Job(dashboard, submission_id, client, log)
    threading.Thread(target=_read, args=(client, job._lines), daemon=True).start()
    return job


def _read(client: subprocess.Popen[str], lines: "queue.Queue[str | None]") -> None:
    assert client.stdout is not None
    for line in client.stdout:
        lines.put(clean(line))
    client.wait()
    lines.put(None)


def new_submission_id(name: str) -> str:
    """Return an id of its own for a submission, such as ``discover-4f2a``, valid in a URL."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name) + "-" + os.urandom(4).hex()
