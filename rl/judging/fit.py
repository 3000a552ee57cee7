"""Fits the embedded judge on labelled replies and measures it on tasks that it has not seen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rl.data.tasks import TRAINING_DOMAINS, Task, bundled_task_files, load_tasks
from rl.judging.agreement import Agreement, agreement
from rl.judging.embedded import decide_labels
from rl.judging.encoder import SentenceEncoder
from rl.judging.features import NODE_FEATURES
from rl.judging.fit_rows import FitData, Rows, fitting_rows, join_rows
from rl.judging.interface import Engagement, ReplyKind
from rl.judging.kind_features import KIND_FEATURES
from rl.judging.labelled import labelled_requests
from rl.judging.linear import LinearClassifier
from rl.judging.weights_file import JudgeWeights

HELD_OUT_TASKS = 7  # the first tasks of each training domain, in file order, are never fitted on
NODE_LABELS = tuple(label.value for label in Engagement)
KIND_LABELS = tuple(kind.value for kind in ReplyKind)


@dataclass(frozen=True)
class FitSettings:
    """What the fit depends on besides the data.

    ``struck_weight`` and ``foreign_weight`` weigh the two sorts of extra rows (a row of a labelled
    reply weighs 1); ``node_c`` and ``kind_c`` are inverse strengths of the L2 penalties.
    """

    struck_weight: float = 0.3
    foreign_weight: float = 0.3
    node_c: float = 0.1
    kind_c: float = 0.1
    direct_threshold: float = 0.6
    seed: int = 0


@dataclass(frozen=True)
class Predictions:
    """Gold and predicted labels of the same items, with the task of each."""

    gold: tuple[str, ...]
    predicted: tuple[str, ...]
    tasks: tuple[str, ...]

    def agreement(self, labels: Sequence[str]) -> Agreement:
        """Return how well they agree."""
        return agreement(self.gold, self.predicted, labels)


def split_tasks(
    domains: Iterable[str] = TRAINING_DOMAINS, held_out: int = HELD_OUT_TASKS
) -> tuple[list[Task], list[Task]]:
    """Return the bundled tasks to fit on, and those held out (the first of each domain)."""
    fitted: list[Task] = []
    unseen: list[Task] = []
    for domain in domains:
        tasks = load_tasks(bundled_task_files([domain]))
        unseen += tasks[:held_out]
        fitted += tasks[held_out:]
    return fitted, unseen


def bundled_rows(encoder: SentenceEncoder, tasks: Sequence[Task], settings: FitSettings) -> FitData:
    """Return the rows to fit on of the labelled replies of ``tasks``."""
    return fitting_rows(
        encoder,
        labelled_requests(tasks),
        settings.struck_weight,
        settings.foreign_weight,
        settings.seed,
    )


def fit(data: FitData, settings: FitSettings, source: Mapping[str, Any]) -> JudgeWeights:
    """Fit both classifiers on all of ``data``; ``source`` goes to the weights file with it."""
    rows = join_rows(data.nodes, data.extra)
    return JudgeWeights(
        node=_fit_linear(rows, NODE_LABELS, tuple(NODE_FEATURES), settings.node_c),
        kind=_fit_linear(data.kinds, KIND_LABELS, tuple(KIND_FEATURES), settings.kind_c),
        direct_threshold=settings.direct_threshold,
        fitted={**source, "settings": asdict(settings), "tasks": list(data.tasks)},
    )


def predict(weights: JudgeWeights, data: FitData) -> tuple[Predictions, Predictions]:
    """Return predictions for the labelled replies of ``data``: of nodes, and of kinds."""
    nodes = tuple(label.value for label in decide_labels(weights, data.nodes.values))
    best = weights.kind.probabilities(data.kinds.values).argmax(axis=1)
    kinds = tuple(weights.kind.labels[int(index)] for index in best)
    return (
        Predictions(data.nodes.labels, nodes, data.nodes.tasks),
        Predictions(data.kinds.labels, kinds, data.kinds.tasks),
    )


def cross_validate(
    data: FitData, settings: FitSettings, folds: int = 7
) -> tuple[Predictions, Predictions]:
    """Predict each task by a fit on other tasks only; the i-th task is in fold i modulo ``folds``.

    Raises:
        ValueError: there are fewer tasks than folds.
    """
    if not 2 <= folds <= len(data.tasks):
        raise ValueError(f"folds must be from 2 to the number of tasks {len(data.tasks)}: {folds}")
    nodes, kinds = [], []
    for fold in range(folds):
        unseen = frozenset(data.tasks[fold::folds])
        weights = fit(data.of(frozenset(data.tasks) - unseen), settings, {})
        of_nodes, of_kinds = predict(weights, data.of(unseen))
        nodes.append(of_nodes)
        kinds.append(of_kinds)
    return _join_predictions(nodes), _join_predictions(kinds)


def _fit_linear(
    rows: Rows, labels: tuple[str, ...], features: tuple[str, ...], inverse_penalty: float
) -> LinearClassifier:
    """Standardise and fit a multinomial logistic regression (scikit-learn: L2 penalty, lbfgs)."""
    from sklearn.linear_model import LogisticRegression

    if missing := set(labels) - set(rows.labels):
        raise ValueError(f"the rows to fit on lack the labels {sorted(missing)}")
    mean, scale = rows.values.mean(axis=0), rows.values.std(axis=0)
    scale = np.where(scale < 1e-9, 1.0, scale)
    numbers = [labels.index(label) for label in rows.labels]
    model = LogisticRegression(C=inverse_penalty, max_iter=5000, tol=1e-8)
    model.fit((rows.values - mean) / scale, numbers, sample_weight=rows.weights)
    return LinearClassifier(labels, features, mean, scale, model.coef_, model.intercept_)


def _join_predictions(parts: Sequence[Predictions]) -> Predictions:
    """Join predictions end to end."""
    return Predictions(
        tuple(label for part in parts for label in part.gold),
        tuple(label for part in parts for label in part.predicted),
        tuple(task for part in parts for task in part.tasks),
    )
