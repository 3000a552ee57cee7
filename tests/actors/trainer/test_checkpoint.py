"""Checkpoints: whole or not there, newest first, and damage that is named."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from actors.trainer.checkpoint import (
    Checkpoint,
    CheckpointError,
    Progress,
    list_checkpoints,
    load_checkpoint,
    save_checkpoint,
)
from rl.policy.adapter import AdapterFiles


def made(step, *, lineage=0, mark=b"weights", states=None):
    progress = Progress(
        step, 2 * step, lineage, 11, 2, tuple(range(step)), (90, 91), {"deadline": 2}
    )
    adapter = AdapterFiles.of(f"assistant@{lineage}.{step}", b'{"r": 8}', mark)
    states = states or ({"a.pt": b"zero", "deep/b.pt": b"0"}, {"a.pt": b"one"})
    return Checkpoint(progress, adapter, states)


def names(folder):
    return [path.name for path in list_checkpoints(folder)]


def everything(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_is_saved_is_loaded(tmp_path):
    written = made(3)
    assert save_checkpoint(tmp_path, written, keep=2) == tmp_path / "step-000003"
    loaded = load_checkpoint(tmp_path)
    assert loaded.progress == written.progress
    assert (loaded.adapter.config, loaded.adapter.weights) == (b'{"r": 8}', b"weights")
    assert loaded.adapter.digest == written.adapter.digest
    assert loaded.states == written.states


def test_the_adapter_is_a_folder_in_the_format_of_peft(tmp_path):
    folder = save_checkpoint(tmp_path, made(3), keep=1) / "adapter"
    assert sorted(path.name for path in folder.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]


def test_a_rank_without_files_of_its_own(tmp_path):
    save_checkpoint(tmp_path, made(1, states=({"a": b"x"}, {})), keep=1)
    assert load_checkpoint(tmp_path).states == ({"a": b"x"}, {})


def test_the_newest_are_kept(tmp_path):
    for step in (9, 10, 99, 100):
        save_checkpoint(tmp_path, made(step), keep=3)
    assert names(tmp_path) == ["step-000010", "step-000099", "step-000100"]


def test_the_newest_is_so_by_number_and_not_by_text(tmp_path):
    for step in (999_999, 1_000_000):
        (tmp_path / f"step-{step:06d}").mkdir()
    assert names(tmp_path) == ["step-999999", "step-1000000"]


def test_an_unfinished_checkpoint_is_none(tmp_path):
    save_checkpoint(tmp_path, made(1), keep=2)
    (tmp_path / "step-000001").rename(tmp_path / ".step-000001")
    assert names(tmp_path) == []
    with pytest.raises(CheckpointError, match="no checkpoint to continue from"):
        load_checkpoint(tmp_path)
    save_checkpoint(tmp_path, made(2), keep=2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000002"]  # and it is cleared away


def test_other_files_are_no_checkpoints(tmp_path):
    (tmp_path / "step-last").mkdir()
    (tmp_path / "step-000007").write_text("a file")
    save_checkpoint(tmp_path, made(1), keep=1)
    assert names(tmp_path) == ["step-000001"]


def test_the_same_step_again_takes_the_place_of_the_first(tmp_path):
    save_checkpoint(tmp_path, made(4, mark=b"first"), keep=1)
    save_checkpoint(tmp_path, made(4, lineage=1, mark=b"second"), keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000004"]
    loaded = load_checkpoint(tmp_path)
    assert (loaded.progress.lineage, loaded.adapter.weights) == (1, b"second")


class CrashError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("survives", range(5))
def test_a_crash_at_any_rename_leaves_a_checkpoint(tmp_path, monkeypatch, survives):
    """Whichever rename is the last one to happen, the step is there: the old one or the new."""
    save_checkpoint(tmp_path, made(4, mark=b"first"), keep=1)
    before = everything(tmp_path)
    rename, done = Path.rename, []

    def counted(self, target):
        if len(done) == survives:
            raise CrashError
        done.append(target)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", counted)
    crashed = False
    try:
        save_checkpoint(tmp_path, made(4, lineage=1, mark=b"second"), keep=1)
    except CrashError:
        crashed = True
    monkeypatch.undo()
    loaded = load_checkpoint(tmp_path)
    assert loaded.adapter.weights == (b"first" if crashed else b"second")
    assert crashed == (survives < 2)
    # The next save, of a continued run, finds its way through what was left.
    save_checkpoint(tmp_path, made(4, lineage=2, mark=b"third"), keep=1)
    assert load_checkpoint(tmp_path).adapter.weights == b"third"
    assert set(everything(tmp_path)) == set(before)


def test_a_checkpoint_that_was_replaced_is_older_than_the_one_in_its_place(tmp_path):
    """As a crash leaves them: the new one has its name, and the old one is still there."""
    save_checkpoint(tmp_path, made(4, mark=b"first"), keep=1)
    (tmp_path / "step-000004").rename(tmp_path / "step-000004.replaced")
    assert load_checkpoint(tmp_path).adapter.weights == b"first"
    save_checkpoint(tmp_path / "new", made(4, mark=b"second"), keep=1)
    (tmp_path / "new" / "step-000004").rename(tmp_path / "step-000004")
    assert names(tmp_path) == ["step-000004.replaced", "step-000004"]
    assert load_checkpoint(tmp_path).adapter.weights == b"second"


def test_a_crash_while_writing_leaves_the_older_checkpoint(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, made(1), keep=1)
    before = everything(tmp_path / "step-000001")

    def crash(self, *args, **kwargs):
        raise CrashError

    monkeypatch.setattr(Path, "write_text", crash)
    with pytest.raises(CrashError):
        save_checkpoint(tmp_path, made(2), keep=1)
    monkeypatch.undo()
    assert load_checkpoint(tmp_path).progress.step == 1
    assert everything(tmp_path / "step-000001") == before


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-1])


def forget(*keys):
    def change(path):
        plain = json.loads(path.read_text())
        path.write_text(json.dumps({k: v for k, v in plain.items() if k not in keys}))

    return change


@pytest.mark.parametrize(
    ("file", "harm", "reason"),
    [
        ("progress.json", Path.unlink, "No such file"),
        ("progress.json", lambda path: path.write_text("{"), "Expecting"),
        ("progress.json", lambda path: path.write_text("[]"), "damaged"),
        ("progress.json", forget("files"), "KeyError: 'files'"),
        ("progress.json", forget("trained"), "KeyError: 'trained'"),
        ("progress.json", forget("updates"), "updates"),
        ("adapter/adapter_model.safetensors", Path.unlink, "adapter_model.safetensors"),
        ("adapter/adapter_model.safetensors", cut_short, "has 6 bytes, 7 were written"),
        ("optimizer/rank-1/a.pt", Path.unlink, "rank-1/a.pt"),
        ("optimizer/rank-0/deep/b.pt", cut_short, "rank-0/deep/b.pt has 0 bytes, 1 were"),
    ],
)
def test_damage_is_named_with_its_folder(tmp_path, file, harm, reason):
    save_checkpoint(tmp_path, made(1), keep=2)
    folder = save_checkpoint(tmp_path, made(2), keep=2)
    harm(folder / file)
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(tmp_path)
    text = str(caught.value)
    assert text.startswith(f"{folder}: damaged checkpoint: ")
    assert reason in text
    assert "\n" not in text


def test_a_lineage_is_part_of_the_progress(tmp_path):
    progress = replace(made(5).progress, lineage=3)
    save_checkpoint(tmp_path, replace(made(5), progress=progress), keep=1)
    assert load_checkpoint(tmp_path).progress == progress
