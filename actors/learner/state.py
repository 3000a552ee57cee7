"""A rank's DeepSpeed state as files in memory, so that no shared filesystem is needed."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TAG = "state"
_LAYOUT_FILE = "layout.json"


def save_state(engine: Any) -> dict[str, bytes]:
    """Return the files that DeepSpeed's own checkpoint writes on this rank, without frozen weights.

    A collective: every rank calls it. The union over ranks is what :func:`load_state` needs.
    """
    with tempfile.TemporaryDirectory(prefix="discern-state-") as folder:
        engine.save_checkpoint(folder, tag=_TAG, save_latest=False, exclude_frozen_parameters=True)
        root = Path(folder) / _TAG
        files = {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
    return files | {_LAYOUT_FILE: json.dumps(_layout(engine)).encode()}


def load_state(engine: Any, files: Mapping[str, bytes]) -> None:
    """Restore adapter, optimiser and master weights from the union of all ranks' files.

    Raises:
        ValueError: the state was saved by another number of ranks or another ZeRO stage.
        RuntimeError: DeepSpeed found no usable state.
    """
    _check_layout(engine, files)
    with tempfile.TemporaryDirectory(prefix="discern-state-") as folder:
        root = Path(folder) / _TAG
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        loaded, _ = engine.load_checkpoint(folder, tag=_TAG, load_module_strict=False)
    if loaded is None:
        raise RuntimeError(f"DeepSpeed could not load its state from {sorted(files)}")


def _layout(engine: Any) -> dict[str, int]:
    """What decides how the state is cut into files, by configuration key."""
    return {
        "learner.world_size": int(engine.world_size),
        "learner.zero_stage": int(engine.zero_optimization_stage()),
    }


def _check_layout(engine: Any, files: Mapping[str, bytes]) -> None:
    """Refuse another layout: DeepSpeed's own message differs by stage, and ZeRO 0 has none."""
    if _LAYOUT_FILE not in files:
        raise ValueError(f"no {_LAYOUT_FILE} among the learner's state files {sorted(files)}")
    saved, wanted = json.loads(files[_LAYOUT_FILE]), _layout(engine)
    for key, value in wanted.items():
        if saved.get(key) != value:
            raise ValueError(
                f"the learner's state was saved with {key}={saved.get(key)} and cannot be "
                f"continued with {key}={value}"
            )
