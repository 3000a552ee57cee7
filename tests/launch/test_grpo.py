"""The entry point refuses what cannot run: one line, exit status 2, nothing written or loaded."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def launch(*arguments: str, deadline_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    return subprocess.run(
        [sys.executable, "launch/grpo.py", *arguments],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )


def refusal(*arguments: str) -> str:
    """Run, check that it was refused with one line and left no folder, and return that line."""
    folder = CHECKOUT / "runs" / f"refused-{os.getpid()}"
    own = any(argument.startswith(("run.dir=", "run.resume=")) for argument in arguments)
    result = launch("model=tiny", *arguments, *([] if own else [f"run.dir={folder}"]))
    assert not folder.exists()
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, result.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("train.stepz=3", "train.steps"),
        ("train.steps=two", "train.steps"),
        ("grpo.group_size=1", "grpo.group_size"),
        ("assistant.top_p=0.9", "assistant.top_p"),
        ("train.staleness=-1", "train.staleness"),
        ("train.staleness=3", "rollout.max_loras"),
        ("assistant.max_tokens=900", "model.context_tokens"),
        ("tasks.files=[nowhere.jsonl]", "nowhere.jsonl"),
        ("discovery.horizon=window", "horizon"),
    ],
)
def test_an_impossible_configuration_is_refused(argument: str, told: str) -> None:
    assert told in refusal(argument)


def test_a_malformed_task_file_is_named_with_line_and_field(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"id": 7}\n', encoding="utf-8")
    line = refusal(f"tasks.files=[{file}]")
    assert f"{file}:1" in line
    assert "id" in line


def test_a_model_folder_without_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"")
    line = refusal("model.source=path", f"model.path={tmp_path}")
    assert "tokenizer" in line


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["model.context_tokens=4096"], "model.context_tokens=4096: expected at most 2048"),
        (
            ["model.source=path", "model.path=owner/no-such-model-anywhere"],
            "model.path=owner/no-such-model-anywhere: the configuration cannot be read: ",
        ),
    ],
)
def test_what_the_model_cannot_do_is_refused_before_ray(
    tmp_path: Path, tiny_dir: Path, arguments: list[str], told: str
) -> None:
    line = refusal(*arguments, f"run.dir={tmp_path / 'run'}", "cluster.address=127.0.0.1:1")
    assert told in line
    assert not (tmp_path / "run").exists()


def test_a_folder_in_use_is_never_overwritten_unasked(tmp_path: Path) -> None:
    keep = tmp_path / "precious.txt"
    keep.write_text("mine", encoding="utf-8")
    assert "is not empty" in refusal(f"run.dir={tmp_path}")
    assert keep.read_text(encoding="utf-8") == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


@pytest.mark.stack
def test_a_ray_address_that_does_not_answer_is_refused_quickly(
    tmp_path: Path, tiny_dir: Path
) -> None:
    start = time.monotonic()
    line = refusal("cluster.address=127.0.0.1:1", f"run.dir={tmp_path / 'run'}")
    assert "127.0.0.1:1" in line
    assert time.monotonic() - start < 60
    assert not (tmp_path / "run").exists()


@pytest.mark.stack
def test_too_few_cpus_are_refused_with_wanted_and_available(tmp_path: Path, tiny_dir: Path) -> None:
    line = refusal("rollout.cpus=4096", f"run.dir={tmp_path / 'run'}")
    assert "wanted 4097 CPU" in line
    assert not (tmp_path / "run").exists()


def test_help_lists_every_key() -> None:
    result = launch("--help")
    assert result.returncode == 0
    assert "grpo.group_size=4 (int)" in result.stdout


@pytest.mark.heavy
@pytest.mark.stack
def test_a_tiny_run_needs_no_cluster_and_leaves_nothing_behind(tmp_path: Path) -> None:
    start = time.monotonic()
    arguments = ["recipe=discover", "model=tiny", "train.steps=2", f"run.dir={tmp_path / 'run'}"]
    result = launch(*arguments, deadline_s=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert time.monotonic() - start < 180
    assert (tmp_path / "run" / "summary.json").is_file()


@pytest.mark.heavy
def test_a_run_stopped_while_its_actors_load_says_so_and_leaves_no_process(tmp_path: Path) -> None:
    """Ray, on connecting, puts its own handler in place of any set before."""
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "launch/grpo.py", "model=tiny", "train.steps=1", f"run.dir={folder}"],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"},
    )
    assert process.stdout is not None
    try:
        assert any(line.startswith("run folder: ") for line in process.stdout)
        time.sleep(5.0)
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert output.endswith("run.resume continues from the last checkpoint\n")
    assert json.loads((folder / "status.json").read_text())["phase"] == "stopped"
    assert len(started) > 4  # a head, its agents, workers
    _, alive = psutil.wait_procs(started, timeout=30)
    assert alive == []
