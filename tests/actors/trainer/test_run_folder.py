"""A run's folder: made once, never overwritten unasked, cut back exactly on resume."""

import json
from pathlib import Path

import pytest

from actors.trainer.run_folder import RunFolder
from rl.config.errors import ConfigError
from rl.config.load import load_config, load_resolved
from rl.episode.jsonl import RowError, read_episodes, read_rows
from rl.episode.outcome import EpisodeEnd
from rl.episode.records import Episode, EpisodeId
from rl.episode.tokens import TokenTree


def config(folder, *arguments):
    return load_config([f"run.dir={folder}", *arguments])


def continued(folder, *arguments):
    return load_config([f"run.resume={folder}", *arguments])


def episode(order, end=EpisodeEnd.TURN_LIMIT):
    return Episode(EpisodeId(0, f"task-{order}", order), "assistant", "svg", end, TokenTree())


def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_new_folder_holds_the_resolved_configuration(tmp_path):
    wanted = config(tmp_path / "a" / "run", "train.steps=9")
    run = RunFolder.create(wanted)
    assert load_resolved(run.folder) == wanted
    assert run.checkpoints.is_dir()


def test_an_empty_folder_may_be_there_already(tmp_path):
    assert RunFolder.create(config(tmp_path)).folder == tmp_path


def test_a_run_is_not_overwritten_unasked(tmp_path):
    RunFolder.create(config(tmp_path)).add_metrics({"step": 1})
    before = content(tmp_path)
    with pytest.raises(ConfigError, match=r"run\.dir=.*: expected a new or empty folder"):
        RunFolder.create(config(tmp_path))
    assert content(tmp_path) == before


def test_a_folder_that_holds_no_run_is_never_emptied(tmp_path):
    (tmp_path / "thesis.txt").write_text("three years of work")
    with pytest.raises(ConfigError, match="expected a new or empty folder"):
        RunFolder.create(config(tmp_path, "run.overwrite=true"))
    assert content(tmp_path) == {"thesis.txt": b"three years of work"}


def test_overwriting_empties_a_run(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    folder = tmp_path / "run"
    run = RunFolder.create(config(folder))
    run.add_metrics({"step": 1})
    (run.checkpoints / "step-000001").mkdir()
    (folder / "link").symlink_to(outside)
    RunFolder.create(config(folder, "run.overwrite=true"))
    assert set(content(folder)) == {"config.yaml"}
    assert list((folder / "checkpoints").iterdir()) == []
    assert (outside / "kept.txt").read_text() == "kept"  # a link goes, not what it points to


def test_a_linked_folder_is_emptied_behind_its_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    RunFolder.create(config(tmp_path / "run")).add_metrics({"step": 1})
    RunFolder.create(config(tmp_path / "run", "run.overwrite=true"))
    assert set(content(tmp_path / "disk")) == {"config.yaml"}


def started(folder):
    """A run of three steps with two episodes each, and one failure after the first step."""
    run = RunFolder.create(config(folder))
    for step in (1, 2, 3):
        orders = (3 * step - 3, 3 * step - 2)
        run.add_episodes([episode(order) for order in orders])
        run.add_episodes([episode(3 * step - 1, EpisodeEnd.DEADLINE)])
        run.add_metrics({"step": step, "loss": None})
    run.set_summary({"status": "failed"})
    return run


def test_pitfall_21_reopening_drops_exactly_what_the_checkpoint_does_not_know(tmp_path):
    before = started(tmp_path)
    lines = before.episodes.read_bytes().splitlines(keepends=True)
    run = RunFolder.reopen(continued(tmp_path), step=2, settled={0, 1, 2, 3, 4})
    assert run.metrics.read_text() == '{"step":1,"loss":null}\n{"step":2,"loss":null}\n'
    assert run.episodes.read_bytes() == b"".join(lines[:5])  # 5 failed after the checkpoint
    assert not (tmp_path / "summary.json").exists()
    assert (tmp_path / "config.yaml").is_file()
    run.add_episodes([episode(5)])
    assert [e.id.order for e in read_episodes(run.episodes)] == [0, 1, 2, 3, 4, 5]


def test_reopening_twice_changes_nothing_more(tmp_path):
    started(tmp_path)
    RunFolder.reopen(continued(tmp_path), 2, {0, 1, 2, 3, 4})
    before = content(tmp_path)
    RunFolder.reopen(continued(tmp_path), 2, {0, 1, 2, 3, 4})
    assert content(tmp_path) == before


def test_reopening_drops_a_torn_row(tmp_path):
    run = started(tmp_path)
    with run.metrics.open("a") as file:
        file.write('{"step":')
    with pytest.raises(RowError, match="the last line is torn"):
        run.add_metrics({"step": 4})
    reopened = RunFolder.reopen(continued(tmp_path), 3, set(range(9)))
    reopened.add_metrics({"step": 4})
    assert [row["step"] for row in read_rows(run.metrics)] == [1, 2, 3, 4]


def test_reopening_a_run_that_wrote_no_row(tmp_path):
    RunFolder.create(config(tmp_path))
    run = RunFolder.reopen(continued(tmp_path), 0, set())
    assert not run.metrics.exists()


def test_status_and_summary_are_replaced_whole(tmp_path, monkeypatch):
    run = RunFolder.create(config(tmp_path))
    run.set_status("rollout", 1, 6)
    run.set_status("training", 2, 6, "busy")
    status = json.loads((tmp_path / "status.json").read_text())
    assert {k: v for k, v in status.items() if k != "time"} == {
        "phase": "training",
        "step": 2,
        "steps": 6,
        "message": "busy",
    }

    def crash(self, target):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(OSError, match="no space left"):
        run.set_status("finished", 6, 6)
    assert json.loads((tmp_path / "status.json").read_text()) == status  # the old one, whole


def test_numbers_that_json_cannot_hold_are_refused(tmp_path):
    run = RunFolder.create(config(tmp_path))
    with pytest.raises(RowError, match="loss is nan"):
        run.add_metrics({"step": 1, "loss": float("nan")})
    assert not run.metrics.exists()


def test_a_continued_run_says_what_it_now_runs_with(tmp_path):
    RunFolder.create(config(tmp_path, "train.steps=3"))
    RunFolder.reopen(continued(tmp_path, "train.steps=5"), 0, set())
    assert load_resolved(tmp_path) == config(tmp_path, "train.steps=5")
