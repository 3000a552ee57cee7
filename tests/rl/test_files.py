"""Waiting until files are on disk."""

import os
import stat

import pytest

from rl.files import sync


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_file_and_a_folder_are_synced_and_closed(tmp_path, monkeypatch, kind):
    path = tmp_path / "written" if kind == "file" else tmp_path
    if kind == "file":
        path.write_bytes(b"x")
    synced, real = [], os.fsync

    def spy(descriptor):
        synced.append((descriptor, os.fstat(descriptor).st_ino))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    sync(path)
    [(descriptor, inode)] = synced
    assert inode == path.stat().st_ino
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_failure_is_raised_and_nothing_stays_open(tmp_path, monkeypatch):
    opened = []

    def fail(descriptor):
        opened.append(descriptor)
        assert stat.S_ISDIR(os.fstat(descriptor).st_mode)
        raise OSError("no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        sync(tmp_path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_an_absent_path_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        sync(tmp_path / "absent")
