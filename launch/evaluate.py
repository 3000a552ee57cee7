"""Measures a judge or assistants: ``launch/evaluate.py suite=NAME data=FILE… [key=value …]``.

suite=engagement  agreement of a judge with labelled replies; ``data`` names task files, files of
                  labelled replies, or folders of either; ``judge.backend=…`` chooses the judge

``data`` takes several names with commas (``data=a.jsonl,b.jsonl``) or as further arguments
(``data=a.jsonl b.jsonl``). ``out=FILE`` also writes the result as JSON. The other keys are those of
``launch/grpo.py --help``. Exit status: 0 done, 1 nothing could be measured, 2 bad arguments.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# As a script, Python puts launch/ first on the path, where a file of ours could hide a library.
if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from rl.config.errors import ConfigError, wrong
from rl.config.load import load_config
from rl.config.overrides import split_arguments
from rl.config.schema import Config
from rl.config.validate import validate
from rl.data.tasks import TaskFileError
from rl.judging.encoder_package import EncoderMissingError

OWN_KEYS = ("suite", "data", "out")


@dataclass(frozen=True)
class Request:
    """What to measure: files, where the result goes, and the configuration."""

    data: tuple[Path, ...]
    out: Path | None
    config: Config


def engagement(request: Request) -> Mapping[str, object]:
    """Print and return a judge's agreement with labels."""
    from rl.data.labelled_replies import load_labelled_replies
    from rl.evaluation.engagement import measure_engagement, table
    from rl.judging.backends import make_judge

    if not request.data:
        raise wrong("data", "", "expected one or more files with labelled replies")
    items = load_labelled_replies(request.data)
    report = measure_engagement(make_judge(request.config.judge), items)
    print(table(report))
    return report.as_dict()


SUITES: Mapping[str, Callable[[Request], Mapping[str, object]]] = {"engagement": engagement}


def main(arguments: Sequence[str]) -> int:
    """Run one suite and return the exit status."""
    if not arguments or {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    try:
        suite, request = read_arguments(arguments)
        result = SUITES[suite](request)
        if request.out is not None:
            request.out.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(result, indent=1, ensure_ascii=False)
            request.out.write_text(text + "\n", encoding="utf-8")
            print(f"written to {request.out}")
    except (ConfigError, TaskFileError, EncoderMissingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def read_arguments(arguments: Sequence[str]) -> tuple[str, Request]:
    """Return the suite and what it is asked to measure.

    Raises:
        ConfigError: a key that is missing, unknown, given twice or of a wrong value.
    """
    files = [argument for argument in arguments if "=" not in argument]
    given = split_arguments([argument for argument in arguments if "=" in argument])
    if files and "data" not in given:
        raise ConfigError(f"{files[0]}: expected key=value, such as data={files[0]}")
    own = {key: given.pop(key, "") for key in OWN_KEYS}
    files = [*own["data"].strip("[]").split(","), *files]
    suite = own["suite"]
    if suite not in SUITES:
        raise wrong("suite", suite, f"expected one of {', '.join(SUITES)}")
    config = load_config([f"{key}={value}" for key, value in given.items()])
    validate(config)
    data = tuple(Path(name.strip()).expanduser() for name in files if name.strip())
    out = Path(own["out"]).expanduser() if own["out"] else None
    if out is not None:
        _check_new_file(out)
    return suite, Request(data, out, config)


def _check_new_file(out: Path) -> None:
    """Say before measuring what could not be written after it; nothing is overwritten."""
    if os.path.lexists(out):
        raise wrong("out", out, "is there already; expected a new file")
    above = next(parent for parent in out.absolute().parents if os.path.lexists(parent))
    if not above.is_dir():
        raise wrong("out", out, f"{above} is no folder")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
