"""A Ray head on this machine, reachable over loopback only: started, awaited and stopped.

Only the head that was started here is ever stopped, by its process group: ``ray stop`` would end
every Ray on the machine. What the head leaves in its own folder goes with it.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from launch.dashboard import Dashboard, DashboardError, probe, read_token, token_path

OBJECT_STORE_BYTES = (
    1 << 30
)  # adapters and episodes are megabytes; the default takes 30 % of memory

# Ray's own 3 seconds kill a driver before the adapters that its actors wrote are removed.
JOB_STOP_SECONDS = 20


class HeadError(Exception):
    """The head cannot be started; the message is one clear line."""


@dataclass(frozen=True)
class StartedHead:
    """A head that this process started: its group leader, its own folder and its log."""

    process: subprocess.Popen[bytes]
    port: int  # of the dashboard
    folder: Path
    log: Path


def head_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a head and of every job on it.

    The interpreter's own folder comes first on the PATH: a job's ``python`` is the first that the
    head finds. Ray maps 127.0.0.1 to the machine's outer address unless clusters are off. A stopped
    job's driver gets ``JOB_STOP_SECONDS`` to end its actors and remove what they left.
    """
    bin_folder = str(Path(sys.executable).parent)
    kept = {key: value for key, value in environment.items() if key != "RAY_ADDRESS"}
    return kept | {
        "PATH": os.pathsep.join([bin_folder, environment.get("PATH", os.defpath)]),
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_JOB_STOP_WAIT_TIME_S": str(JOB_STOP_SECONDS),
    }


def start_head(port: int, log: Path) -> StartedHead:
    """Start a head whose dashboard will answer at ``port``; return at once, see :func:`await_head`.

    Ports that nobody types (GCS, client server, agents, workers) are whatever is free, so that
    several heads fit one machine.
    """
    ensure_token()
    log.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="discern-ray-", dir=_short_temporary_folder()))
    gcs, client, agent = free_ports(3)
    command = [
        str(Path(sys.executable).parent / "ray"),
        "start",
        "--head",
        "--block",
        "--node-ip-address=127.0.0.1",
        f"--port={gcs}",
        f"--ray-client-server-port={client}",
        f"--dashboard-agent-listen-port={agent}",
        "--min-worker-port=0",
        "--max-worker-port=0",
        "--include-dashboard=true",
        "--dashboard-host=127.0.0.1",
        f"--dashboard-port={port}",
        f"--object-store-memory={OBJECT_STORE_BYTES}",
        f"--temp-dir={folder}",
        "--disable-usage-stats",
        "--log-color=false",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=head_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its own group: Ctrl-C reaches us, and we stop it in order
        )
    return StartedHead(process, port, folder, log)


def await_head(head: StartedHead, deadline_s: float = 120.0) -> Dashboard:
    """Return the head's dashboard once it answers.

    Raises:
        HeadError: it ended, or did not answer in time; the head is left for :func:`stop_head`.
    """
    give_up = time.monotonic() + deadline_s
    while time.monotonic() < give_up:
        if head.process.poll() is not None:
            raise HeadError(
                f"ray start ended with status {head.process.returncode}: "
                f"{last_line(head.log)} (log: {head.log})"
            )
        try:
            dashboard = probe(head.port)
        except DashboardError:  # the port is bound before it answers
            dashboard = None
        if dashboard is not None:
            return dashboard
        time.sleep(0.2)
    raise HeadError(
        f"the Ray dashboard at port {head.port} did not answer within {deadline_s:.0f} s "
        f"(log: {head.log})"
    )


def stop_head(head: StartedHead, deadline_s: float = 40.0, keep_folder: bool = False) -> None:
    """Stop the head and all that it started; after the deadline by force."""
    group = head.process.pid
    with contextlib.suppress(ProcessLookupError):
        head.process.terminate()  # the leader drains the node and ends its children
    if not _group_is_gone(head, time.monotonic() + deadline_s):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        _group_is_gone(head, time.monotonic() + 5.0)
    if not keep_folder:
        shutil.rmtree(head.folder, ignore_errors=True)


def ensure_token() -> None:
    """Make this user's cluster token where none exists: Ray refuses to start a head without one."""
    if read_token() is not None:
        return
    path = token_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(32))


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for bound in sockets:
            bound.bind(("127.0.0.1", 0))
        return [int(bound.getsockname()[1]) for bound in sockets]


def last_line(log: Path) -> str:
    """Return the last line of a log that says something."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "it printed nothing")


def _group_is_gone(head: StartedHead, give_up: float) -> bool:
    while True:
        head.process.poll()  # reaps the leader, which would else count as a member
        try:
            os.killpg(head.process.pid, 0)
        except ProcessLookupError:
            return True
        if time.monotonic() > give_up:
            return False
        time.sleep(0.1)


def _short_temporary_folder() -> str:
    """Return a folder for Ray's sockets, whose paths may have 107 characters and get 80 more."""
    folder = tempfile.gettempdir()
    return folder if len(folder) <= 20 else "/tmp"
