"""A cache of folders built once: complete or absent, also when two processes build at once."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

MARKER = "discern.json"


def cache_root() -> Path:
    """Return the cache folder: ``$DISCERN_CACHE``, else ``~/.cache/discern``."""
    configured = os.environ.get("DISCERN_CACHE", "")
    return Path(configured or "~/.cache/discern").expanduser().absolute()


def cached_folder(name: str, facts: Mapping[str, str | int]) -> Path:
    """Return where the folder ``name`` built under ``facts`` lies, built or not.

    ``facts`` are the versions and settings that decide the content. They are part of the folder's
    name, so a folder never changes once it is visible, and an upgrade builds another one.
    """
    canonical = json.dumps(dict(facts), sort_keys=True)
    key = hashlib.sha256(canonical.encode()).hexdigest()[:10]
    return cache_root() / "models" / f"{name}-{key}"


def is_built(folder: Path) -> bool:
    """Tell whether ``folder`` was completed: the marker is its last file before the rename."""
    return (folder / MARKER).is_file()


def build_once(name: str, facts: Mapping[str, str | int], build: Callable[[Path], None]) -> Path:
    """Return the folder of ``name`` and ``facts``; when absent, let ``build`` fill it first.

    ``build`` fills a private folder that one rename makes visible. Of two processes that build at
    once the first to finish wins, and the other drops its copy. An exception of ``build`` leaves
    nothing behind.
    """
    folder = cached_folder(name, facts)
    if is_built(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        build(partial)
        (partial / MARKER).write_text(json.dumps(dict(facts), indent=2, sort_keys=True) + "\n")
        _open_to_readers(partial)
        _publish(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _open_to_readers(folder: Path) -> None:
    """Undo the private modes of mkdtemp and safetensors: a shared cache serves every user."""
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)


def _publish(partial: Path, folder: Path) -> None:
    try:
        partial.rename(folder)
    except OSError:
        if not is_built(folder):  # not a lost race: a real failure of the file system
            raise
