"""Fits the embedded judge: ``python launch/fit_judge.py --dry-run | --output FILE``.

Uses the bundled tasks of the training domains but the held-out ones, prints the agreement, and
writes a weights file if told where. Exit status: 0 done, 2 bad arguments or no encoder.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

# As a script, Python puts launch/ first on the path, where a file of ours could hide a library.
if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from rl.data.tasks import TRANSFER_DOMAINS, bundled_task_files, load_tasks
from rl.judging.agreement import bootstrap_by_task
from rl.judging.encoder import SentenceEncoder
from rl.judging.encoder_package import EncoderMissingError
from rl.judging.fit import (
    HELD_OUT_TASKS,
    KIND_LABELS,
    NODE_LABELS,
    FitSettings,
    Predictions,
    bundled_rows,
    cross_validate,
    fit,
    predict,
    split_tasks,
)
from rl.judging.fit_rows import measured_rows
from rl.judging.labelled import labelled_requests
from rl.judging.weights_file import save_weights

_SHIPPED = "rl/judging/weights/embedded.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, report, and write the weights file unless told not to."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given or ["--help"])
    if options.output and (options.output.is_dir() or not options.output.parent.is_dir()):
        print(f"error: --output {options.output}: expected a file in a folder", file=sys.stderr)
        return 2
    try:
        encoder = SentenceEncoder(options.encoder)
    except EncoderMissingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    fitted, unseen = split_tasks()
    if not 2 <= options.folds <= len(fitted):
        print(f"error: --folds must be from 2 to {len(fitted)}: {options.folds}", file=sys.stderr)
        return 2
    settings = FitSettings(seed=options.seed)
    data = bundled_rows(encoder, fitted, settings)
    _report("cross-validation by task", *cross_validate(data, settings, options.folds))
    weights = fit(
        data,
        settings,
        {
            "how": "multinomial logistic regression (L2, lbfgs) on standardised features of the "
            "labelled replies, with extra rows; made by launch/fit_judge.py",
            "held_out": [task.id for task in unseen],
            "held_out_rule": f"the first {HELD_OUT_TASKS} tasks of each training domain",
        },
    )
    transfer = load_tasks(bundled_task_files(TRANSFER_DOMAINS))
    for name, tasks in (("held-out tasks", unseen), ("transfer domains", transfer)):
        _report(name, *predict(weights, measured_rows(encoder, labelled_requests(tasks))))
    if options.output:
        save_weights(weights, options.output)
        print(f"wrote {options.output}")
    return 0


def _report(name: str, nodes: Predictions, kinds: Predictions) -> None:
    """Print one line on the nodes' labels and one on the replies' kinds."""
    scores = nodes.agreement(NODE_LABELS)
    interval = bootstrap_by_task(nodes.gold, nodes.predicted, nodes.tasks, NODE_LABELS)
    print(
        f"{name}: n {scores.n}, accuracy {scores.accuracy:.3f}, macro-F1 {scores.macro_f1:.3f}, "
        f"kappa {scores.kappa:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
    )
    for label, score in scores.per_label.items():
        print(
            f"  {label}: precision {score.precision:.3f}, recall {score.recall:.3f}, "
            f"n {score.support}"
        )
    of_kinds = kinds.agreement(KIND_LABELS)
    print(f"  kind: n {of_kinds.n}, accuracy {of_kinds.accuracy:.3f}, kappa {of_kinds.kappa:.3f}")


def _parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    parser = argparse.ArgumentParser(
        prog="launch/fit_judge.py", description="Fits the embedded judge."
    )
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument(
        "--output", type=Path, help=f"weights file to write; the judge reads {_SHIPPED}"
    )
    goal.add_argument("--dry-run", action="store_true", help="write nothing")
    parser.add_argument("--encoder", type=Path, default=None, help="folder of another encoder")
    parser.add_argument("--folds", type=int, default=7, help="folds of the cross-validation")
    parser.add_argument("--seed", type=int, default=0, help="seed of the extra rows")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
