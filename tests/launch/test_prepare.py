"""The command that prepares models: ready ones cost nothing, unknown ones are named."""

import subprocess
import sys
from pathlib import Path

import pytest

from launch.prepare import main

CHECKOUT = Path(__file__).resolve().parents[2]


def test_prepared_models_are_reported_with_their_folder(tiny_dir, smollm2_dir, capsys):
    assert main(["tiny", "smollm2-135m-instruct"]) == 0
    output = capsys.readouterr().out
    assert f"ready at {tiny_dir}" in output
    assert f"ready at {smollm2_dir}" in output


def test_an_unknown_model_is_refused(capsys):
    assert main(["gpt"]) == 2
    assert capsys.readouterr().err == (
        "unknown model 'gpt'; allowed: smollm2-135m-instruct, tiny\n"
    )


def test_a_missing_package_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("rl.models.embedded.PACKAGE", "no-such-package-installed")
    assert main(["tiny"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: model.source=package needs the Python package")
    assert error.count("\n") == 1


@pytest.mark.parametrize("script", ["prepare", "local"])
def test_nothing_heavy_is_imported_before_it_is_needed(script, smollm2_dir):
    """A second `make grpo` reaches `ray start` within seconds: no Ray, no torch before it."""
    heavy = {"ray", "torch", "transformers", "vllm", "numpy", "rich"}
    run = {
        "prepare": "launch.prepare.main([])",
        "local": "launch.local.plan_run([], pathlib.Path())",
    }
    code = (
        f"import sys, pathlib, launch.{script}\n{run[script]}\n"
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_the_script_runs_from_any_folder(tmp_path, smollm2_dir):
    done = subprocess.run(
        [sys.executable, str(CHECKOUT / "launch" / "prepare.py")],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert str(smollm2_dir) in done.stdout
