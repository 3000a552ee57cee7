"""Builds intent trees from artefacts: ``launch/trees.py artifacts=FILE out=FILE [key=value …]``.

``artifacts`` holds one JSON object a line: ``{id?, artifact_type, text, domain?}``; ``domain=NAME``
is the domain of those that name none. A language model at ``judge.endpoint`` (any OpenAI-compatible
server; ``judge.model``, ``judge.key_name``) takes each one apart; the tasks are appended to ``out``
in the bundled format, failures to the file beside it. The same command again goes on with what is
missing. Exit status: 0 all built, 1 some failed, 2 bad arguments, 130 stopped by Ctrl-C.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# As a script, Python puts launch/ first on the path, where a file of ours could hide a library.
if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from rl.config.errors import ConfigError, wrong
from rl.config.load import load_config
from rl.config.overrides import split_arguments
from rl.config.schema import JudgeConfig
from rl.config.validate import validate
from rl.data.artifacts import Artifact, load_artifacts
from rl.data.tasks import TaskFileError
from rl.discovery.construction.build import BuildSettings
from rl.discovery.construction.run import Progress, TreeFiles, build_trees, failures_file
from rl.episode.jsonl import RowError

OWN_KEYS = ("artifacts", "out", "domain")


@dataclass(frozen=True)
class Request:
    """What to build, where it goes, and who is asked."""

    artifacts: tuple[Artifact, ...]
    out: Path
    judge: JudgeConfig
    seed: int


def main(arguments: Sequence[str]) -> int:
    """Build the trees and return the exit status."""
    if not arguments or {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    try:
        request = read_arguments(arguments)
        files = TreeFiles(request.out)
        progress = asyncio.run(_build(request, files))
    except (ConfigError, TaskFileError, RowError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on with what is missing", file=sys.stderr)
        return 130
    print(f"{progress.built} of {progress.wanted} tasks in {files.out}")
    for reason, count in sorted(progress.failed.items()):
        print(f"failed: {count} × {reason} (listed in {files.failures})")
    return 1 if progress.failed else 0


def read_arguments(arguments: Sequence[str]) -> Request:
    """Return what is asked for.

    Raises:
        ConfigError: a key that is missing, unknown or wrong.
        TaskFileError: an artefact that cannot be used.
    """
    given = split_arguments(arguments)
    own = {key: given.pop(key, "") for key in OWN_KEYS}
    for key in ("artifacts", "out"):
        if not own[key]:
            raise wrong(key, "", "expected a JSONL file")
    given.setdefault("judge.backend", "llm")
    config = load_config([f"{key}={value}" for key, value in given.items()])
    validate(config)
    if config.judge.backend != "llm":
        raise wrong("judge.backend", config.judge.backend, "expected llm: it writes the trees")
    source, out = Path(own["artifacts"]).expanduser(), Path(own["out"]).expanduser()
    if source.resolve() in (out.resolve(), failures_file(out.resolve())):
        raise wrong("out", out, f"would be written over artifacts={source}")
    artifacts = load_artifacts(source, own["domain"] or "custom")
    return Request(tuple(artifacts), out, config.judge, config.run.seed)


async def _build(request: Request, files: TreeFiles) -> Progress:
    from rl.llm.endpoint import EndpointClient

    judge = request.judge
    client = EndpointClient(
        judge.endpoint, judge.model, judge.key_name, judge.deadline_s, judge.retries
    )
    settings = BuildSettings(
        deadline_s=judge.deadline_s, max_tokens=judge.max_tokens, seed=request.seed
    )
    try:
        return await build_trees(
            request.artifacts, client, settings, files, judge.concurrency, _show
        )
    finally:
        await client.close()


def _show(progress: Progress) -> None:
    failed = progress.failed.total()
    note = f", {failed} failed" if failed else ""
    print(f"[progress] {progress.done}/{progress.wanted} artefacts{note}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
