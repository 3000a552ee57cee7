"""How well a judge's labels agree with those of people, on frontier nodes and kinds of reply."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rl.judging.agreement import Agreement, Interval, agreement, bootstrap_by_task
from rl.judging.interface import Abstention, Engagement, Judge, Judgement, ReplyKind
from rl.judging.labelled import LabelledRequest

NODE_LABELS = tuple(label.value for label in Engagement)
KIND_LABELS = tuple(kind.value for kind in ReplyKind)


@dataclass(frozen=True)
class EngagementReport:
    """Agreement of one judge with the labels.

    ``nodes`` compares the label of every frontier node; ``kappa_interval`` is its kappa's 95 %
    interval over tasks, ``None`` with one task. ``kinds`` compares the replies' kinds, ``None``
    where none is labelled. Replies on which the judge abstained are in neither: ``abstained``
    counts them by reason.
    """

    judge: str
    replies: int
    abstained: Mapping[str, int]
    nodes: Agreement
    kappa_interval: Interval | None
    kinds: Agreement | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; the nodes' figures stand on the top level."""
        interval = self.kappa_interval
        return {
            "judge": self.judge,
            **self.nodes.as_dict(),
            "kappa_95": None if interval is None else [interval.low, interval.high],
            "kind": None if self.kinds is None else self.kinds.as_dict(),
            "replies": self.replies,
            "abstained": dict(self.abstained),
        }


def measure_engagement(judge: Judge, items: Sequence[LabelledRequest]) -> EngagementReport:
    """Let ``judge`` judge labelled replies and compare.

    Raises:
        ValueError: nothing is left to compare, since there are no nodes or the judge abstained on
            every reply; the message gives its first reason.
    """
    verdicts = judge.judge([item.request for item in items])
    judged = [
        (item, verdict)
        for item, verdict in zip(items, verdicts, strict=True)
        if isinstance(verdict, Judgement)
    ]
    refused = [verdict for verdict in verdicts if isinstance(verdict, Abstention)]
    if not any(item.labels for item, _ in judged):
        why = f": {refused[0].reason}: {refused[0].detail}" if refused else ""
        raise ValueError(f"{judge.name} judged no node of {len(items)} replies{why}")
    pairs = list(_node_pairs(judged))
    gold, predicted, tasks = (tuple(column) for column in zip(*pairs, strict=True))
    kinds = [(item.kind.value, verdict.kind.value) for item, verdict in judged if item.kind]
    gold_kinds, predicted_kinds = [g for g, _ in kinds], [p for _, p in kinds]
    return EngagementReport(
        judge=judge.name,
        replies=len(items),
        abstained=_counts(verdict.reason.value for verdict in refused),
        nodes=agreement(gold, predicted, NODE_LABELS),
        kappa_interval=(
            bootstrap_by_task(gold, predicted, tasks, NODE_LABELS) if len(set(tasks)) > 1 else None
        ),
        kinds=agreement(gold_kinds, predicted_kinds, KIND_LABELS) if kinds else None,
    )


def table(report: EngagementReport) -> str:
    """Return the report as lines to read on a screen."""
    nodes, interval = report.nodes, report.kappa_interval
    lines = [
        f"judge {report.judge}: {report.replies} replies, {nodes.n} frontier nodes",
        f"accuracy {nodes.accuracy:.3f}  macro-F1 {nodes.macro_f1:.3f}  kappa {nodes.kappa:.3f}"
        + (f" [{interval.low:.3f}, {interval.high:.3f}]" if interval else ""),
    ]
    lines += [
        f"  {label:<11} precision {score.precision:.3f}  recall {score.recall:.3f}  "
        f"F1 {score.f1:.3f}  n {score.support}"
        for label, score in nodes.per_label.items()
    ]
    if report.kinds is None:
        lines.append("kind: not labelled")
    else:
        lines.append(f"kind: accuracy {report.kinds.accuracy:.3f}, n {report.kinds.n}")
    if report.abstained:
        named = ", ".join(f"{reason} {count}" for reason, count in report.abstained.items())
        lines.append(f"abstained, and left out: {named}")
    return "\n".join(lines)


def _node_pairs(
    judged: Sequence[tuple[LabelledRequest, Judgement]],
) -> Iterator[tuple[str, str, str]]:
    """Yield (gold label, predicted label, task) of every node."""
    for item, verdict in judged:
        for node, label in zip(item.request.nodes, item.labels, strict=True):
            yield label.value, verdict.label(node.id).value, item.task


def _counts(names: Iterator[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))
