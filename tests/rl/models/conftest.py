"""Copies of the tiny model's files, one of them changed."""

import json
import shutil

import pytest


@pytest.fixture
def variant(tiny_dir, tmp_path):
    """Make a copy of the tiny model without weights, with changed keys or whole files."""

    def make(config=None, files=None):
        folder = tmp_path / "variant"
        shutil.copytree(tiny_dir, folder, ignore=shutil.ignore_patterns("*.safetensors"))
        if config is not None:
            file = folder / "config.json"
            file.write_text(json.dumps(json.loads(file.read_text()) | config))
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        return str(folder)

    return make
