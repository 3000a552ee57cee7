"""`make grpo` on a real Ray head: submitted, followed, stopped. The entry point trains nothing.

One head serves all tests but the last, which lets the driver start and stop its own.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from launch.dashboard import probe
from launch.ray_head import await_head, free_ports, start_head, stop_head
from launch.ray_job import UPLOADED

pytestmark = pytest.mark.stack

CHECKOUT = Path(__file__).resolve().parents[2]

# Stands for launch/grpo.py: writes a run's folder as the trainer does.
ENTRY_POINT = '''\
"""Stands for the trainer."""
import json, os, pathlib, signal, sys, time
import actors, configs, launch, rl  # from the uploaded copy
given = dict(argument.split("=", 1) for argument in sys.argv[1:])
folder = pathlib.Path(given["run.dir"])
folder.mkdir(parents=True)
print("uploaded:", sorted(os.listdir(".")), flush=True)
print("python:", sys.executable, "rl:", rl.__file__, flush=True)
def status(phase, step):
    text = json.dumps({"phase": phase, "step": step, "steps": 2, "message": "", "time": 0})
    (folder / "status.json").write_text(text)
name = given["run.name"]
if name == "refused":
    print("error: not enough CPUs")
    sys.exit(2)
status("rollout", 0)
if name == "endless":
    def clean_up(*_):
        time.sleep(4)  # longer than Ray would wait of its own accord
        (folder / "cleaned").touch()
        sys.exit(143)
    signal.signal(signal.SIGTERM, clean_up)
    print("waiting", flush=True)
    time.sleep(300)
row = {"step": 1, "steps": 2, "reward_mean": 0.5, "discover": 1.25,
       "seconds": {"wait": 1.5, "train": 0.5}, "generated_tokens": 100}
(folder / "metrics.jsonl").write_text(json.dumps(row) + "\\n")
time.sleep(3)
(folder / "summary.json").write_text(json.dumps(
    {"status": "finished", "steps": 2, "rows": [["Discover", "1.25"]], "error": None}))
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small copy of the checkout with the stand-in, and the token file of these heads."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in UPLOADED:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    (folder / "launch" / "grpo.py").write_text(ENTRY_POINT)
    (folder / "stray.bin").write_bytes(b"\0" * 1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(folder / "token"))
        yield folder


@pytest.fixture(scope="module")
def head(folder):
    head = start_head(free_ports(1)[0], folder / "runs" / "head.log")
    try:
        await_head(head, deadline_s=240.0)
        yield head
    finally:
        stop_head(head)


def _start(folder, port, *arguments):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.Popen(
        [sys.executable, str(folder / "launch" / "local.py"), *arguments],
        cwd=folder,
        env=environment | {"DASHBOARD_PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _make_grpo(folder, port, arguments):
    """`make grpo` in an environment that is installed: this one, whoever installed it."""
    for name in ("Makefile", "requirements"):
        (folder / name).symlink_to(CHECKOUT / name)
    environment = folder / "environment"
    environment.mkdir()
    for entry in Path(sys.prefix).iterdir():
        if not entry.name.startswith("installed-"):
            (environment / entry.name).symlink_to(entry)
    lock = (folder / "requirements" / "cpu.lock").read_bytes()
    checksum = subprocess.run(["cksum"], input=lock, capture_output=True, check=True).stdout
    (environment / f"installed-{checksum.split()[0].decode()}").touch()
    inherited = {"PYTHONPATH", "ARGS", "VENV", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    variables = {key: value for key, value in os.environ.items() if key not in inherited}
    return subprocess.Popen(
        ["make", "--no-print-directory", "grpo", f"VENV={environment}", f"ARGS={arguments}"],
        cwd=folder,
        env=variables | {"DASHBOARD_PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _end(process, timeout=240):
    try:
        return process.communicate(timeout=timeout)[0]
    finally:
        process.kill()


def _group(head):
    """The head's processes, workers included: Ray gives those groups of their own."""
    leader = psutil.Process(head.process.pid)
    return [leader, *leader.children(recursive=True)]


def test_the_head_listens_on_loopback_only(head):
    listening = {
        connection.laddr.ip
        for process in _group(head)
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


def test_pitfall_25_the_job_imports_the_uploaded_copy_and_its_status_is_ours(head, folder):
    process = _start(folder, head.port, "run.name=refused", "run.dir=runs/refused")
    lines = _end(process).splitlines()
    assert process.returncode == 2
    assert "error: not enough CPUs" in lines
    uploaded = next(line for line in lines if line.startswith("uploaded: "))
    assert uploaded == f"uploaded: {sorted(UPLOADED)}"
    python = next(line for line in lines if line.startswith("python: "))
    assert python.startswith(f"python: {sys.executable} rl: ")
    assert "working_dir_files" in python  # not the checkout
    assert "The run left no summary." in lines
    assert probe(head.port) is not None  # a head that was there before stays


def test_a_wrong_key_ends_before_anything_is_submitted(head, folder):
    started = time.monotonic()
    process = _start(folder, head.port, "train.stepz=2", "run.dir=runs/wrong")
    output = _end(process)
    assert process.returncode == 2
    assert output == "error: unknown key train.stepz: did you mean train.steps?\n"
    assert time.monotonic() - started < 10.0
    assert not (folder / "runs" / "wrong").exists()


def test_ctrl_c_lets_the_job_clean_up_stops_it_and_ends_with_130(head, folder):
    process = _start(folder, head.port, "run.name=endless", "run.dir=runs/endless")
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("[progress]"):
            break
    submission_id = next(line for line in lines if "job: " in line).split("job: ")[1].strip()
    assert probe(head.port).job(submission_id).status == "RUNNING"
    process.send_signal(signal.SIGINT)
    assert "stopping the job" in _end(process, timeout=60)
    assert process.returncode == 130
    assert probe(head.port).job(submission_id).status == "STOPPED"
    assert (folder / "runs" / "endless" / "cleaned").exists()


def test_a_second_make_grpo_installs_nothing_starts_ray_in_3_s_and_leaves_nothing(
    folder, smollm2_dir
):
    (port,) = free_ports(1)
    started = time.monotonic()
    process = _make_grpo(folder, port, "run.name=whole run.dir=runs/whole")
    model, first = process.stdout.readline(), process.stdout.readline()
    seconds = time.monotonic() - started
    assert model.endswith(f"ready at {smollm2_dir}\n")
    assert first.startswith("ray start: a local head")
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # other tests may share the cores
    assert seconds < 3.0 * busy
    (leader,) = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if {"start", "--head"} <= set(child.cmdline())
    ]
    (temporary,) = [part[11:] for part in leader.cmdline() if part.startswith("--temp-dir=")]
    assert Path(temporary).is_dir()
    output = _end(process)
    assert process.returncode == 0, output
    assert "[progress] step 1/2 · rollout · reward 0.500 · Discover 1.250 · 50 tokens/s" in output
    assert "Discover" in output and "Run finished" in output
    assert f"run folder: {folder / 'runs' / 'whole'}" in output.splitlines()
    assert "\x1b" not in output
    assert not leader.is_running()
    assert not Path(temporary).exists()
    assert [other for other in psutil.process_iter() if temporary in _command(other)] == []
    assert probe(port) is None


def _command(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
