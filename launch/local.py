"""What `make grpo` runs: a Ray head on this machine if none answers, one job on it, its progress.

Usage: ``python launch/local.py [key=value ...]``; the arguments are those of ``launch/grpo.py``.
Environment: ``DASHBOARD_PORT`` (8265), ``KEEP_RAY=1`` leaves the head running, ``VERBOSE=1`` shows
the whole log of the job. The exit status is the job's: 2 for a configuration that cannot run, 130
after Ctrl-C. Neither Ray nor torch is imported here, so that the head starts at once.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

# As a script, Python puts launch/ first on the path, where a file of ours could hide a library.
if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from launch.arguments import RunPlan, plan_run
from launch.dashboard import Dashboard, DashboardError, JobState, probe
from launch.display import Display, make_display, print_summary, worth_showing
from launch.ray_head import (
    HeadError,
    StartedHead,
    await_head,
    head_environment,
    start_head,
    stop_head,
)
from launch.ray_job import Job, JobError, new_submission_id, submit
from launch.run_folder import RunFolder
from rl.config.errors import ConfigError

CHECKOUT = Path(__file__).resolve().parents[1]


class Interrupted(BaseException):
    """A signal asked for the end; carries its number. Like KeyboardInterrupt no plain error."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@dataclass(frozen=True)
class Options:
    """What the environment decides."""

    dashboard_port: int
    keep_ray: bool
    verbose: bool

    @classmethod
    def from_environment(cls) -> "Options":
        """Read ``DASHBOARD_PORT``, ``KEEP_RAY`` and ``VERBOSE``; ConfigError for a wrong port."""
        port = os.environ.get("DASHBOARD_PORT") or "8265"
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(f"DASHBOARD_PORT={port}: expected a port, 1 to 65535")
        return cls(
            dashboard_port=int(port),
            keep_ray=os.environ.get("KEEP_RAY", "") not in ("", "0"),
            verbose=os.environ.get("VERBOSE", "") not in ("", "0"),
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one job to its end and return the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        options = Options.from_environment()
        plan = plan_run(sys.argv[1:] if arguments is None else arguments, Path.cwd())
        return _run(plan, options)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (DashboardError, HeadError, JobError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except Interrupted as interruption:
        return 128 + interruption.number


def _run(plan: RunPlan, options: Options) -> int:
    """Start a head if needed, run the job, stop the head if it is ours; return the exit status."""
    dashboard = probe(options.dashboard_port)
    if dashboard is not None:
        _check_version(dashboard)
        print(f"using the Ray head at {dashboard.address}, which stays as it is", flush=True)
        return _run_job(plan, options, dashboard)
    log = plan.log_file("ray.log")
    head = start_head(options.dashboard_port, log)
    print(f"ray start: a local head, dashboard at port {head.port} (log: {log})", flush=True)
    status = 1
    try:
        status = _run_job(plan, options, await_head(head))
        return status
    except Interrupted as interruption:
        status = 128 + interruption.number
        raise
    finally:
        _leave(head, options, status)


def _run_job(plan: RunPlan, options: Options, dashboard: Dashboard) -> int:
    """Submit, follow, and sum up; on a signal stop the job first."""
    submission_id = new_submission_id(plan.run_dir.name)
    print(f"dashboard: {dashboard.address}   job: {submission_id}", flush=True)
    job = submit(
        dashboard,
        submission_id,
        CHECKOUT,
        ["python", "launch/grpo.py", *plan.arguments],
        plan.log_file("log"),
        head_environment(),
        plan.job_variables,
    )
    display = make_display()
    try:
        _follow(job, RunFolder(plan.run_dir), display, options.verbose)
        state = job.outcome()
    except Interrupted:
        display.close()
        print("stopping the job ...", flush=True)
        job.stop()
        print(f"stopped: {RunFolder(plan.run_dir).how_to_continue()}", flush=True)
        raise
    finally:
        display.close()
    print_summary(RunFolder(plan.run_dir).summary(), str(plan.run_dir))
    return _exit_status(state, job)


def _follow(job: Job, folder: RunFolder, display: Display, verbose: bool) -> None:
    def show(line: str) -> None:
        if verbose or worth_showing(line):
            display.log(line)

    job.follow(show, lambda: display.update(folder.progress()))


def _exit_status(state: JobState, job: Job) -> int:
    """Return 0 for success, else the driver's own status where it is known, else 1."""
    if state.status == "SUCCEEDED":
        return 0
    print(f"job {job.submission_id}: {state.status} (log: {job.log})", file=sys.stderr)
    return state.exit_code if state.exit_code and 0 < state.exit_code < 256 else 1


def _leave(head: StartedHead, options: Options, status: int) -> None:
    """Stop the head that this process started, unless it is to stay; a second Ctrl-C is ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if options.keep_ray and head.process.poll() is None:
        print(f"KEEP_RAY: the Ray head stays, process group {head.process.pid}; ", end="")
        print(f"`kill {head.process.pid}` ends it")
        return
    started = time.monotonic()
    stop_head(head, keep_folder=status == 1)
    if status != 1 and not head.log.stat().st_size:
        head.log.unlink()
    print(f"the local Ray head is stopped ({time.monotonic() - started:.0f} s)", flush=True)
    if head.folder.exists():
        print(f"Ray's own logs: {head.folder}/session_latest/logs", flush=True)


def _check_version(dashboard: Dashboard) -> None:
    import importlib.metadata

    ours = importlib.metadata.version("ray")
    if dashboard.ray_version != ours:
        raise DashboardError(
            f"the Ray head at {dashboard.address} runs Ray {dashboard.ray_version}, this "
            f"environment has {ours}; stop it, or let DASHBOARD_PORT choose another port"
        )


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)


if __name__ == "__main__":
    sys.exit(main())
