"""Arguments are checked first, and mean the same in the job's working folder."""

import pytest

from launch.arguments import plan_run
from rl.config.errors import ConfigError
from rl.data.tasks import bundled_task_files


def _given(plan):
    return dict(argument.split("=", 1) for argument in plan.arguments)


def test_default_run_gets_a_folder_below_runs(tmp_path):
    plan = plan_run([], tmp_path)
    assert plan.run_dir.parent == tmp_path / "runs"
    assert plan.run_dir.name.startswith("discover-")
    assert plan.arguments == (f"run.dir={plan.run_dir}",)
    assert plan.log_file("log") == tmp_path / "runs" / f"{plan.run_dir.name}.log"
    assert not (tmp_path / "runs").exists()


def test_a_given_folder_becomes_absolute_and_the_rest_is_passed_on(tmp_path):
    plan = plan_run(["model=tiny", "run.dir=../mine", "train.steps=2"], tmp_path / "here")
    assert plan.run_dir == tmp_path / "mine"
    assert _given(plan) == {
        "model": "tiny", "run.dir": str(tmp_path / "mine"), "train.steps": "2"
    }  # fmt: skip


def test_paths_of_tasks_adapter_and_model_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [bundled] = bundled_task_files(["svg"])
    (tmp_path / "tasks.jsonl").write_bytes(bundled.read_bytes())
    for folder, files in {
        "model": ["config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"],
        "adapter": ["adapter_config.json", "adapter_model.safetensors"],
    }.items():
        (tmp_path / folder).mkdir()
        for name in files:
            (tmp_path / folder / name).write_text("{}")
    plan = plan_run(
        ["tasks.files=[tasks.jsonl]", "model.source=path", "model.path=model",
         "discovery.user_adapter=adapter"],
        tmp_path,
    )  # fmt: skip
    given = _given(plan)
    assert given["tasks.files"] == f"[{tmp_path / 'tasks.jsonl'}]"
    assert given["model.path"] == str(tmp_path / "model")
    assert given["discovery.user_adapter"] == str(tmp_path / "adapter")


def test_a_hub_id_stays_a_hub_id(tmp_path):
    plan = plan_run(["model.source=path", "model.path=owner/name"], tmp_path)
    assert _given(plan)["model.path"] == "owner/name"


def test_mistakes_are_found_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"did you mean train\.steps"):
        plan_run(["train.step=2"], tmp_path)
    with pytest.raises(ConfigError, match=r"grpo\.group_size"):
        plan_run(["grpo.group_size=1"], tmp_path)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("kept")
    with pytest.raises(ConfigError, match="is not empty"):
        plan_run(["run.dir=old"], tmp_path)
    assert (tmp_path / "old" / "file").read_text() == "kept"


def test_the_cache_folder_reaches_the_job(tmp_path, monkeypatch):
    monkeypatch.delenv("DISCERN_CACHE", raising=False)
    assert plan_run([], tmp_path).job_variables == {}
    monkeypatch.setenv("DISCERN_CACHE", "cache")
    assert plan_run([], tmp_path).job_variables == {"DISCERN_CACHE": str(tmp_path / "cache")}


def test_a_broken_task_file_is_told_before_anything_starts(tmp_path):
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"id": 7}\n')
    with pytest.raises(ConfigError, match=r"tasks\.jsonl:1: id: expected a string, got int"):
        plan_run([f"tasks.files=[{file}]"], tmp_path)
