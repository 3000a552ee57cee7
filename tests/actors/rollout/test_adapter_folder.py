"""An adapter folder: its own worker's alone, and gone after the worker, however that ended."""

import subprocess
import sys

from actors.rollout.adapter_folder import AdapterFolder

_WORKER = """
import sys
from pathlib import Path
from actors.rollout.adapter_folder import AdapterFolder

folder = AdapterFolder.create(Path(sys.argv[1]))
(folder.path / "adapter").write_text("weights")
print(folder.path, flush=True)
sys.stdin.read()
"""


def test_a_new_worker_removes_what_a_killed_one_left_and_nothing_else(tmp_path):
    (tmp_path / "somebody-elses").mkdir()
    (tmp_path / "discern-adapters-file").write_text("no folder")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        killed, alive = (process.stdout.readline().strip() for process in processes)
        processes[0].kill()
        processes[0].wait(timeout=30)
        fresh = AdapterFolder.create(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {
            "somebody-elses",
            "discern-adapters-file",
            alive.rsplit("/", 1)[1],
            fresh.path.name,
        }
        assert killed != alive
    finally:
        for process in processes:
            process.kill()
            process.communicate(timeout=30)


def test_removing_twice_is_once(tmp_path):
    folder = AdapterFolder.create(tmp_path)
    folder.remove()
    folder.remove()
    assert list(tmp_path.iterdir()) == []
