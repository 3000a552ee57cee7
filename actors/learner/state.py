"""A rank's DeepSpeed state as files in memory, so that no shared filesystem is needed."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TAG = "state"


def save_state(engine: Any) -> dict[str, bytes]:
    """Return the files that DeepSpeed's own checkpoint writes on this rank, without frozen weights.

    A collective: every rank calls it. The union over ranks is what :func:`load_state` needs.
    """
    with tempfile.TemporaryDirectory(prefix="discern-state-") as folder:
        engine.save_checkpoint(folder, tag=_TAG, save_latest=False, exclude_frozen_parameters=True)
        root = Path(folder) / _TAG
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }


def load_state(engine: Any, files: Mapping[str, bytes]) -> None:
    """Restore adapter, optimiser and master weights from the union of all ranks' files.

    Raises:
        RuntimeError: DeepSpeed found no usable state, such as one of another world size.
    """
    with tempfile.TemporaryDirectory(prefix="discern-state-") as folder:
        root = Path(folder) / _TAG
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        loaded, _ = engine.load_checkpoint(folder, tag=_TAG, load_module_strict=False)
    if loaded is None:
        raise RuntimeError(f"DeepSpeed could not load its state from {sorted(files)}")
