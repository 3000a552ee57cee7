"""Trains a seat with GRPO: ``python launch/grpo.py [recipe=… model=… hardware=…] [key=value …]``.

Runs inside a Ray job, on the cluster at ``cluster.address``, or on a local Ray that it starts.
Exit status: 0 finished, 1 stopped with an error, 2 the configuration or the cluster cannot run it,
130 stopped by Ctrl-C or SIGTERM.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

# As a script, Python puts launch/ first on the path, where a file of ours could hide a library.
if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from rl.config.errors import ConfigError
from rl.config.load import describe_keys, load_config
from rl.config.validate import validate, validate_paths
from rl.data.tasks import TaskFileError
from rl.episode.jsonl import RowError
from rl.models.errors import ModelError


def main(arguments: Sequence[str]) -> int:
    """Run a job from the command line's arguments and return the exit status."""
    if {"-h", "--help"} & set(arguments):
        print_help()
        return 0
    try:
        config = load_config(arguments)
        validate(config)
        validate_paths(config)
    except ConfigError as error:
        return refuse(error)
    if not config.cluster.address and not os.environ.get("RAY_ADDRESS"):
        # Ray reads this when it is imported: a local Ray stays on the loopback address.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    # Only a configuration that can run is worth importing Ray and torch for.
    from actors.cluster import ClusterError
    from actors.trainer.checkpoint import CheckpointError
    from actors.trainer.job import connect, prepare_job, run_job

    try:
        job = prepare_job(config)
        connect(config)
        # A polite end and Ctrl-C look alike: the run is closed in good order and its processes
        # end. Set here because Ray, on connecting, sets a handler of its own that exits at once.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return run_job(job)
    except (
        ConfigError,
        TaskFileError,
        ModelError,
        ClusterError,
        CheckpointError,
        RowError,  # of a folder that is to be continued
    ) as error:
        return refuse(error)
    except KeyboardInterrupt:
        print("stopped by a signal; run.resume continues from the last checkpoint", file=sys.stderr)
        return 130


def refuse(error: Exception) -> int:
    """Print why nothing was started, in one line."""
    print(f"error: {error}", file=sys.stderr, flush=True)
    return 2


def print_help() -> None:
    """Print the usage and every key with its type, default and meaning."""
    print(__doc__)
    for name, type_name, default, comment in describe_keys():
        print(f"{name}={default!r} ({type_name}) {comment}".rstrip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
