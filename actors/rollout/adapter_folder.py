"""The folder from which one rollout worker's engine reads adapters: in shared memory, never left.

A worker that is killed cannot remove its folder. Every folder is therefore locked while its worker
lives, and each new worker removes the ones whose lock is free.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "discern-adapters-"


class AdapterFolder:
    """Made with :meth:`create`; the lock ends with the process that holds it, however it dies."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, parent: Path | None = None) -> "AdapterFolder":
        """Remove what dead workers left in ``parent`` (default: shared memory); make a new one."""
        parent = parent or _local_memory()
        _remove_abandoned(parent)
        # Locked before it has the name that others look for.
        hidden = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=parent))
        lock = os.open(hidden, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = hidden.rename(parent / hidden.name.removeprefix("."))
        return cls(path, lock)

    def remove(self) -> None:
        """Remove the folder and give up the lock; calling it again changes nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _remove_abandoned(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # another user's, gone by now, or no folder at all
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            pass  # its worker lives
        finally:
            os.close(lock)


def _local_memory() -> Path:
    """Return the folder of the machine's shared memory, or the default temporary folder."""
    shared_memory = Path("/dev/shm")
    return shared_memory if shared_memory.is_dir() else Path(tempfile.gettempdir())
