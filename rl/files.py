"""Files that survive a power cut: waiting until what was written is on disk."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's entries, are on disk.

    A rename lasts only once the folder that holds the new name is synced.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
