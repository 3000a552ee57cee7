"""How well two labellings agree: accuracy, Cohen's kappa, macro-F1, tables, bootstrap by task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LabelScore:
    """One label's precision, recall and F1, and how often it stands in the gold labels."""

    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class Interval:
    """A percentile interval; ``low`` and ``high`` are its ends."""

    low: float
    high: float


@dataclass(frozen=True)
class Agreement:
    """Agreement of predicted with gold labels over ``n`` items.

    ``confusion`` has gold labels in rows and predicted ones in columns, in the order of ``labels``.
    """

    labels: tuple[str, ...]
    n: int
    accuracy: float
    macro_f1: float
    kappa: float
    per_label: Mapping[str, LabelScore]
    confusion: tuple[tuple[int, ...], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "n": self.n,
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "kappa": self.kappa,
            "per_label": {label: vars(score) for label, score in self.per_label.items()},
            "labels": list(self.labels),
            "confusion": [list(row) for row in self.confusion],
        }


def confusion_matrix(
    gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]
) -> Counts:
    """Count (gold, predicted) pairs; shape (labels, labels), gold in rows.

    Raises:
        ValueError: the sequences differ in length, or hold a label that ``labels`` lacks.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold labels but {len(predicted)} predicted ones")
    index = {label: i for i, label in enumerate(labels)}
    if unknown := {*gold, *predicted} - index.keys():
        raise ValueError(f"labels {sorted(unknown)} are not among {list(labels)}")
    counts = np.zeros((len(labels), len(labels)), np.int64)
    for true, guess in zip(gold, predicted, strict=True):
        counts[index[true], index[guess]] += 1
    return counts


def agreement(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> Agreement:
    """Compare two labellings of the same items.

    A label absent from both sides is left out of macro-F1. Kappa is 0 by convention when chance
    agreement is 1 (one label everywhere), for then it says nothing.

    Raises:
        ValueError: there are no items, or the labels do not fit (see :func:`confusion_matrix`).
    """
    if not gold:
        raise ValueError("no labelled items to compare")
    counts = confusion_matrix(gold, predicted, labels)
    scores = {label: _label_score(counts, i) for i, label in enumerate(labels)}
    return Agreement(
        labels=tuple(labels),
        n=int(counts.sum()),
        accuracy=float(np.trace(counts) / counts.sum()),
        macro_f1=macro_f1(counts),
        kappa=cohen_kappa(counts),
        per_label=scores,
        confusion=tuple(tuple(int(cell) for cell in row) for row in counts),
    )


def cohen_kappa(counts: Counts) -> float:
    """Cohen's kappa (1960) of a confusion matrix: (observed − chance) / (1 − chance)."""
    total = counts.sum()
    observed = np.trace(counts) / total
    chance = float(counts.sum(axis=0) @ counts.sum(axis=1)) / float(total) ** 2
    return 0.0 if chance >= 1.0 else float((observed - chance) / (1.0 - chance))


def macro_f1(counts: Counts) -> float:
    """Mean F1 over the labels that stand on either side of a confusion matrix."""
    used = counts.sum(axis=0) + counts.sum(axis=1)
    f1 = 2.0 * np.diag(counts)[used > 0] / used[used > 0]
    return float(f1.mean())


def _label_score(counts: Counts, index: int) -> LabelScore:
    """Score one label; a ratio over nothing is 0."""
    hits = int(counts[index, index])
    said, true = int(counts[:, index].sum()), int(counts[index].sum())
    return LabelScore(
        precision=hits / said if said else 0.0,
        recall=hits / true if true else 0.0,
        f1=2.0 * hits / (said + true) if said + true else 0.0,
        support=true,
    )


def bootstrap_by_task(
    gold: Sequence[str],
    predicted: Sequence[str],
    tasks: Sequence[str],
    labels: Sequence[str],
    statistic: Callable[[Counts], float] = cohen_kappa,
    draws: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Percentile interval of ``statistic``, drawing whole tasks with replacement.

    Items of one task share a tree and are not independent, so the task is the unit. A statistic
    is a function of a confusion matrix: :func:`cohen_kappa`, :func:`macro_f1` or one's own.

    Raises:
        ValueError: the lengths differ or there are no items.
    """
    if not gold or not len(gold) == len(predicted) == len(tasks):
        raise ValueError(
            f"gold, predicted and tasks must be equally long and not empty, "
            f"got {len(gold)}, {len(predicted)}, {len(tasks)}"
        )
    per_task = []
    for task in dict.fromkeys(tasks):
        at = [i for i, name in enumerate(tasks) if name == task]
        per_task.append(confusion_matrix([gold[i] for i in at], [predicted[i] for i in at], labels))
    stacked = np.stack(per_task)
    generator = np.random.default_rng(seed)
    values = [
        statistic(stacked[generator.integers(len(stacked), size=len(stacked))].sum(axis=0))
        for _ in range(draws)
    ]
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(values, [tail, 1.0 - tail])
    return Interval(float(low), float(high))
