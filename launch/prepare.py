"""Prepare the embedded models: the one that runs use by default and, on request, the tiny one.

Usage: ``python launch/prepare.py [smollm2-135m-instruct] [tiny]``. Without arguments: the default.
A prepared model is found again in milliseconds; nothing heavy is imported then.
"""

import argparse
import os
import sys
import time
from pathlib import Path

# As a script, Python puts launch/ first on the path, where a file of ours could hide a library.
if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from rl.models.cache import is_built
from rl.models.embedded import SMOLLM2, prepare_smollm2, smollm2_folder
from rl.models.errors import ModelError
from rl.models.tiny import TINY, prepare_tiny, tiny_folder

_MODELS = {SMOLLM2: (smollm2_folder, prepare_smollm2), TINY: (tiny_folder, prepare_tiny)}


def main(arguments: list[str] | None = None) -> int:
    """Prepare the named models; return the exit status (2 when one cannot be prepared)."""
    parser = argparse.ArgumentParser(description="Prepare the embedded models.")
    parser.add_argument("models", nargs="*", default=[SMOLLM2], metavar="MODEL")
    names = parser.parse_args(arguments).models
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")  # progress bars only where one watches
    for name in names:
        if name not in _MODELS:
            print(f"unknown model {name!r}; allowed: {', '.join(_MODELS)}", file=sys.stderr)
            return 2
    try:
        for name in names:
            _prepare(name)
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _prepare(name: str) -> None:
    folder, prepare = _MODELS[name]
    if is_built(folder()):
        print(f"model {name}: ready at {folder()}")
        return
    print(f"model {name}: preparing once, about half a minute ...", flush=True)
    started = time.monotonic()
    print(f"model {name}: ready at {prepare()} after {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
