"""How a job ends when its actors do not start: status 1, a summary that says why, nothing left."""

import json

import pytest

import actors.trainer.job as job_module
from actors.cluster import ClusterError
from actors.placement import Placement
from actors.trainer.crew import StartError
from actors.trainer.job import Job, run_job
from rl.data.tasks import bundled_task_files, load_tasks
from tests.stack_fixtures import tiny_config


def test_a_run_that_cannot_start_fails_and_says_why(tmp_path, monkeypatch, capsys):
    removed = []

    class NoPlacement(Placement):
        def remove(self):
            removed.append(True)

    def no_crew(*_):
        raise StartError("learner rank 0 did not start: no room")

    monkeypatch.setattr(job_module, "place", lambda config: NoPlacement(None, {}))
    monkeypatch.setattr(job_module, "start_crew", no_crew)
    monkeypatch.setattr(job_module, "check_nodes", lambda *_: None)
    config = tiny_config(f"run.dir={tmp_path / 'run'}")
    tasks = tuple(load_tasks(bundled_task_files(["svg"])))
    assert run_job(Job(config, tasks, "model", (1, 2))) == 1
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["status"], summary["steps"]) == ("failed", 0)
    assert summary["error"] == "StartError: learner rank 0 did not start: no room"
    assert json.loads((tmp_path / "run" / "status.json").read_text())["phase"] == "failed"
    assert "run stopped: StartError: learner rank 0" in capsys.readouterr().out
    assert removed == [True]


def test_a_node_that_cannot_run_it_ends_the_run_before_a_folder_is_made(tmp_path, monkeypatch):
    removed = []

    class NoPlacement(Placement):
        def remove(self):
            removed.append(True)

    def lacking(*_):
        raise ClusterError("node 10.0.0.2 lacks peft")

    monkeypatch.setattr(job_module, "place", lambda config: NoPlacement(None, {}))
    monkeypatch.setattr(job_module, "check_nodes", lacking)
    config = tiny_config(f"run.dir={tmp_path / 'run'}")
    with pytest.raises(ClusterError, match="lacks peft"):
        run_job(Job(config, (), "model", (1, 2)))
    assert removed == [True]
    assert not (tmp_path / "run").exists()


def test_a_signal_while_actors_load_is_told_in_the_status(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(job_module, "place", lambda config: Placement(None, {}))
    monkeypatch.setattr(job_module, "check_nodes", lambda *_: None)
    monkeypatch.setattr(job_module, "start_crew", interrupted)
    config = tiny_config(f"run.dir={tmp_path / 'run'}")
    with pytest.raises(KeyboardInterrupt):
        run_job(Job(config, (), "model", (1, 2)))
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert (status["phase"], status["step"]) == ("stopped", 0)
