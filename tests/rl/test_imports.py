"""``rl/`` is science alone: importing all of it loads no Ray, vLLM, DeepSpeed or verl."""

import json
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PLUMBING = ("ray", "vllm", "deepspeed", "verl")

SCRIPT = f"""
import importlib, json, pkgutil, sys
import rl
names = [m.name for m in pkgutil.walk_packages(rl.__path__, "rl.")]
for name in names:
    importlib.import_module(name)
loaded = [name for name in {PLUMBING!r} if name in sys.modules]
print(json.dumps([names, loaded]))
"""


def test_no_module_of_rl_imports_the_plumbing():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=CHECKOUT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    names, loaded = json.loads(done.stdout.splitlines()[-1])
    files = [p.relative_to(CHECKOUT) for p in (CHECKOUT / "rl").rglob("*.py")]
    modules = {".".join(file.with_suffix("").parts) for file in files}
    expected = {name.removesuffix(".__init__") for name in modules} - {"rl"}
    assert set(names) == expected
    assert loaded == []
