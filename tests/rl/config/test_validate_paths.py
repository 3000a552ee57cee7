"""Files and folders that a configuration names are checked, and nothing is written."""

import json

import pytest

from rl.config.errors import ConfigError
from rl.config.load import RESOLVED_CONFIG, config_to_yaml, load_config
from rl.config.paths import CHECKPOINTS
from rl.config.validate import validate_paths
from rl.judging import encoder_package


def check(*argv):
    validate_paths(load_config(argv))


def error(*argv):
    with pytest.raises(ConfigError) as caught:
        check(*argv)
    text = str(caught.value)
    assert "\n" not in text
    return text


def tree(folder):
    return sorted((str(p), p.is_dir() or p.read_bytes()) for p in folder.rglob("*"))


def test_bundled_domains_exist():
    check("tasks.domains=[svg,travel_planning]")
    assert "'cooking' has no bundled tasks" in error("tasks.domains=[svg,cooking]")


def test_task_files_must_exist(tmp_path):
    file = tmp_path / "tasks.jsonl"
    file.write_text("{}")
    check(f"tasks.files=[{file}]")
    text = error(f"tasks.files=[{file},{tmp_path}/none.jsonl]")
    assert text.startswith("tasks.files=[") and f"{tmp_path}/none.jsonl is no file" in text


def model_folder(folder, *, without=()):
    files = {
        "config.json": "{}",
        "model.safetensors": "",
        "tokenizer.json": "{}",
        "tokenizer_config.json": json.dumps({"chat_template": "{{ messages }}"}),
    }
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        if name not in without:
            (folder / name).write_text(text)
    return folder


def test_model_folder_needs_config_tokenizer_and_template(tmp_path):
    whole = model_folder(tmp_path / "whole")
    check("model.source=path", f"model.path={whole}")
    for missing, expected in [
        ("config.json", "lacks config.json"),
        ("model.safetensors", "lacks weights"),
        ("tokenizer.json", "lacks a tokenizer"),
        ("tokenizer_config.json", "has no chat template"),
    ]:
        folder = model_folder(tmp_path / f"no-{missing}", without=[missing])
        text = error("model.source=path", f"model.path={folder}")
        assert text.startswith(f"model.path={folder}: ") and expected in text


def test_chat_template_may_be_a_file_of_its_own(tmp_path):
    folder = model_folder(tmp_path / "m", without=["tokenizer_config.json"])
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    check("model.source=path", f"model.path={folder}")


def test_hub_ids_are_left_to_the_hub_and_other_names_are_folders(tmp_path):
    check("model.source=path", "model.path=Qwen/Qwen3-8B")
    for path in (f"{tmp_path}/none", "./models/none", "a/b/c", "../none"):
        text = error("model.source=path", f"model.path={path}")
        assert text == f"model.path={path}: no such folder"
    (tmp_path / "file").write_text("")
    assert "is a file; a model is a folder" in error(
        "model.source=path", f"model.path={tmp_path}/file"
    )


def test_user_adapter_is_a_peft_folder(tmp_path):
    text = error(f"discovery.user_adapter={tmp_path}")
    assert text.startswith(f"discovery.user_adapter={tmp_path}: expected a peft adapter's folder")
    (tmp_path / "adapter_config.json").write_text("{}")
    text = error(f"discovery.user_adapter={tmp_path}")
    assert text == f"discovery.user_adapter={tmp_path}: the folder lacks adapter_model.safetensors"
    (tmp_path / "adapter_model.safetensors").write_text("")
    check(f"discovery.user_adapter={tmp_path}")


def test_the_embedded_judge_needs_its_encoder(monkeypatch):
    check("judge.backend=embedded")
    monkeypatch.setattr(encoder_package, "MODULE", "no_such_package_here")
    text = error("judge.backend=embedded")
    assert text.startswith("judge.backend=embedded: ")
    assert encoder_package.PACKAGE in text and "judge.backend=cues" in text
    check("judge.backend=cues")


@pytest.mark.parametrize("argument", [[], ["run.dir=runs/mine"], ["run.dir=~/mine"]])
def test_a_ray_job_never_writes_into_its_temporary_copy(monkeypatch, argument):
    check(*argument)
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    text = error(*argument)
    assert text.startswith(f"{argument[0] if argument else 'run.dir='}: expected an absolute")


def test_a_ray_job_takes_an_absolute_folder_and_relative_inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.jsonl").write_text("{}")
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    check(f"run.dir={tmp_path / 'run'}", "tasks.files=[tasks.jsonl]")


def test_a_ray_job_continues_no_copy_of_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    (run / CHECKPOINTS / "step-1").mkdir(parents=True)
    (run / RESOLVED_CONFIG).write_text(config_to_yaml(load_config([])))
    check("run.resume=run")
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    assert error("run.resume=run").startswith("run.resume=run: expected an absolute folder")
    check(f"run.resume={run}")


def test_a_run_folder_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "notes").write_text("mine")
    for below in ("run", "deep/er/run"):
        assert "/notes is no folder" in error(f"run.dir={tmp_path / 'notes' / below}")
    # Root may write anywhere, so the answer that others get is given here.
    monkeypatch.setattr("rl.config.paths.os.access", lambda path, mode: False)
    assert f"{tmp_path} may not be written to" in error(f"run.dir={tmp_path / 'new' / 'run'}")
    (tmp_path / "empty").mkdir()
    assert "may not be written to" in error(f"run.dir={tmp_path / 'empty'}")


def test_a_run_folder_with_something_in_it_is_kept(tmp_path):
    folder = tmp_path / "run"
    check(f"run.dir={folder}")
    folder.mkdir()
    check(f"run.dir={folder}")
    (folder / RESOLVED_CONFIG).write_text("")
    (folder / "metrics.jsonl").write_text("precious")
    before = tree(tmp_path)
    text = error(f"run.dir={folder}")
    assert text == f"run.dir={folder}: is not empty; run.overwrite=true empties it first"
    check(f"run.dir={folder}", "run.overwrite=true")
    assert tree(tmp_path) == before


def test_overwrite_never_empties_what_is_no_run(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    assert "holds no run" in error(f"run.dir={tmp_path}", "run.overwrite=true")
    assert "is a file" in error(f"run.dir={tmp_path / 'thesis.tex'}", "run.overwrite=true")


def test_resume_needs_a_finished_checkpoint(tmp_path):
    config = load_config([])
    config.run.resume = str(tmp_path)

    def resume_error():
        with pytest.raises(ConfigError) as caught:
            validate_paths(config)
        return str(caught.value)

    assert resume_error() == f"run.resume={tmp_path}: expected a run folder with {RESOLVED_CONFIG}"
    (tmp_path / RESOLVED_CONFIG).write_text("")
    assert "has no checkpoint in checkpoints/" in resume_error()
    (tmp_path / CHECKPOINTS / ".step-1").mkdir(parents=True)
    assert "has no checkpoint in checkpoints/" in resume_error()
    (tmp_path / CHECKPOINTS / "step-1").mkdir()
    validate_paths(config)


def test_a_link_to_nothing_is_no_run_folder(tmp_path):
    (tmp_path / "run").symlink_to(tmp_path / "absent")
    assert "is a link to nothing" in error(f"run.dir={tmp_path / 'run'}")


def test_a_name_that_the_system_refuses_is_named_with_its_key(tmp_path):
    long = "x" * 300
    assert error(f"run.dir={tmp_path / long}").startswith(f"run.dir={tmp_path}")
    assert "File name too long" in error(f"tasks.files=[{tmp_path / long}]")
    assert error("model.source=path", f"model.path={tmp_path / long}").startswith("model.path=")
