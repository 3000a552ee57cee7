"""The cache shows a folder complete or not at all."""

import json
import multiprocessing
from pathlib import Path

import pytest

from rl.models.cache import MARKER, build_once, cache_root, cached_folder, is_built


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DISCERN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _write(text):
    def build(folder: Path) -> None:
        (folder / "content").write_text(text)

    return build


def test_builds_once_and_is_found_again():
    folder = build_once("m", {"version": "1"}, _write("first"))
    again = build_once("m", {"version": "1"}, _write("second"))
    assert again == folder == cached_folder("m", {"version": "1"})
    assert (folder / "content").read_text() == "first"
    assert json.loads((folder / MARKER).read_text()) == {"version": "1"}


def test_another_version_is_another_folder_and_leaves_the_first_alone():
    first = build_once("m", {"version": "1"}, _write("1"))
    second = build_once("m", {"version": "2"}, _write("2"))
    assert first != second
    assert (first / "content").read_text() == "1"
    assert cached_folder("m", {"a": 1, "b": 2}) == cached_folder("m", {"b": 2, "a": 1})


def test_a_failed_build_leaves_nothing(private_cache):
    def fail(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise ValueError("disk full")

    with pytest.raises(ValueError, match="disk full"):
        build_once("m", {}, fail)
    assert not is_built(cached_folder("m", {}))
    assert list((private_cache / "models").iterdir()) == []


def test_the_loser_of_a_race_takes_the_winners_folder(private_cache):
    def overtaken(folder: Path) -> None:
        build_once("m", {}, _write("winner"))  # another process finishes while this one builds
        (folder / "content").write_text("loser")

    folder = build_once("m", {}, overtaken)
    assert (folder / "content").read_text() == "winner"
    assert [entry.name for entry in (private_cache / "models").iterdir()] == [folder.name]


def _build_at_the_barrier(barrier, results):
    def build(folder: Path) -> None:
        barrier.wait(timeout=30)  # both processes are inside the build now
        (folder / "content").write_text("x" * 1000)

    results.put(str(build_once("race", {}, build)))


def test_two_processes_at_once_end_with_one_whole_folder(private_cache):
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(2), context.Queue()
    processes = [
        context.Process(target=_build_at_the_barrier, args=(barrier, results)) for _ in range(2)
    ]
    for process in processes:
        process.start()
    folders = {results.get(timeout=30) for _ in processes}
    for process in processes:
        process.join(timeout=30)
        assert process.exitcode == 0
    (folder,) = folders
    assert (Path(folder) / "content").read_text() == "x" * 1000
    assert len(list((private_cache / "models").iterdir())) == 1


def test_a_target_that_cannot_be_replaced_is_an_error_not_a_silent_success(private_cache):
    blocked = cached_folder("m", {})
    (blocked / "leftover").mkdir(parents=True)  # not empty and not complete
    with pytest.raises(OSError):
        build_once("m", {}, _write("x"))
    assert not is_built(blocked)


def test_default_root_is_below_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("DISCERN_CACHE", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "discern"
