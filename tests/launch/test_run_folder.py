"""Reading a run's folder while it is being written."""

import json

import pytest

from launch.run_folder import Progress, RunFolder


def _row(step, **more):
    return {"step": step, "steps": 6, "reward_mean": 0.5, "discover": 1.25, **more}


def _append(folder, *rows):
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def test_an_absent_folder_is_unknown_not_zero(tmp_path):
    assert RunFolder(tmp_path / "absent").progress() == Progress()
    assert RunFolder(tmp_path / "absent").summary() is None


def test_status_before_the_first_row(tmp_path):
    (tmp_path / "status.json").write_text(
        json.dumps({"phase": "start", "step": 0, "steps": 6, "message": "vLLM"})
    )
    progress = RunFolder(tmp_path).progress()
    assert (progress.phase, progress.message, progress.steps) == ("start", "vLLM", 6)
    assert progress.step is None and progress.reward is None and progress.seconds_left is None


def test_speed_and_time_left_worked_by_hand(tmp_path):
    _append(
        tmp_path,
        _row(1, seconds={"wait": 30.0, "train": 10.0}, generated_tokens=800),
        _row(2, seconds={"wait": 15.0, "train": 5.0}, generated_tokens=900),
    )
    progress = RunFolder(tmp_path).progress()
    assert progress.tokens_per_s == 900 / 20.0
    assert progress.seconds_left == 4 * (40.0 + 20.0) / 2
    assert (progress.step, progress.steps, progress.reward, progress.discover) == (2, 6, 0.5, 1.25)


def test_a_step_takes_the_sum_of_its_phases_and_none_of_them_is_required(tmp_path):
    seconds = {"wait": 20.0, "train": 8.0, "publish": 3.0, "checkpoint": 1.0}
    _append(tmp_path, _row(5, seconds=seconds, generated_tokens=64))
    progress = RunFolder(tmp_path).progress()
    assert progress.tokens_per_s == 2.0  # 64 tokens in 32 s
    assert progress.seconds_left == 32.0
    _append(tmp_path, _row(6, seconds={"wait": 4.0, "publish": None}, generated_tokens=64))
    assert RunFolder(tmp_path).progress().tokens_per_s == 16.0


def test_a_half_written_line_waits_until_it_is_whole(tmp_path):
    folder = RunFolder(tmp_path)
    whole = json.dumps(_row(1)) + "\n"
    (tmp_path / "metrics.jsonl").write_text(whole + json.dumps(_row(2))[:20])
    assert folder.progress().step == 1
    (tmp_path / "metrics.jsonl").write_text(whole + json.dumps(_row(2)) + "\n")
    assert folder.progress().step == 2
    assert [row["step"] for row in folder.rows] == [1, 2]


def test_rows_dropped_by_a_resumed_run_are_forgotten(tmp_path):
    folder = RunFolder(tmp_path)
    _append(tmp_path, _row(1), _row(2), _row(3))
    assert folder.progress().step == 3
    (tmp_path / "metrics.jsonl").write_text(json.dumps(_row(1)) + "\n")
    assert folder.progress().step == 1
    assert len(folder.rows) == 1


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", "3"])
def test_broken_files_are_as_good_as_absent(tmp_path, content):
    for name in ("status.json", "summary.json", "metrics.jsonl"):
        (tmp_path / name).write_text(content + "\n")
    assert RunFolder(tmp_path).progress() == Progress()
    assert RunFolder(tmp_path).summary() is None


def test_missing_and_odd_values_stay_unknown(tmp_path):
    _append(tmp_path, {"step": 1, "steps": 2, "reward_mean": None, "seconds": {"wait": None}})
    progress = RunFolder(tmp_path).progress()
    assert progress == Progress(step=1, steps=2)


def test_summary(tmp_path):
    rows = [["Discover", "1.0"], ["steps", 6], ["malformed"]]
    (tmp_path / "summary.json").write_text(
        json.dumps({"status": "finished", "steps": 6, "rows": rows, "error": None})
    )
    summary = RunFolder(tmp_path).summary()
    assert summary.status == "finished"
    assert summary.rows == (("Discover", "1.0"), ("steps", "6"))
    assert summary.error == ""


def test_a_stopped_run_says_how_to_go_on_or_begin_again(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert folder.how_to_continue() == "nothing was written"
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    assert folder.how_to_continue() == (
        f"no checkpoint yet; run.dir={tmp_path}/run run.overwrite=true begins again"
    )
    (tmp_path / "run" / "checkpoints" / "step-000001").mkdir()
    assert folder.how_to_continue() == (
        f"run.resume={tmp_path}/run continues from its last checkpoint"
    )
