"""The feature rows that the embedded judge is fitted on and measured with."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

from rl.judging.augment import foreign_nodes, strike_listed_values
from rl.judging.encoder import SentenceEncoder
from rl.judging.features import NODE_FEATURES, node_features, node_vectors
from rl.judging.kind_features import KIND_FEATURES, asked_vectors, kind_features
from rl.judging.labelled import LabelledRequest
from rl.judging.linear import Matrix
from rl.judging.reply_view import ReplyView, view_replies
from rl.seeding import derived_random


@dataclass(frozen=True)
class Rows:
    """Feature rows: ``values`` (n, features), and each row's label, task and weight."""

    values: Matrix
    labels: tuple[str, ...]
    tasks: tuple[str, ...]
    weights: Matrix

    def of(self, tasks: Set[str]) -> "Rows":
        """Return the rows of ``tasks``."""
        keep = [index for index, task in enumerate(self.tasks) if task in tasks]
        return Rows(
            self.values[keep],
            tuple(self.labels[index] for index in keep),
            tuple(self.tasks[index] for index in keep),
            self.weights[keep],
        )


@dataclass(frozen=True)
class FitData:
    """Rows of the labelled replies' nodes, extra rows for fitting only, and rows of their kinds."""

    nodes: Rows
    extra: Rows
    kinds: Rows

    def of(self, tasks: Set[str]) -> "FitData":
        """Return the rows of ``tasks``."""
        return FitData(self.nodes.of(tasks), self.extra.of(tasks), self.kinds.of(tasks))

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, in order of first appearance."""
        return tuple(dict.fromkeys(self.nodes.tasks))


def measured_rows(encoder: SentenceEncoder, items: Sequence[LabelledRequest]) -> FitData:
    """Return the rows of labelled replies to measure a judge on, without extra ones."""
    views = view_replies(encoder, [item.request for item in items])
    nodes = node_rows(encoder, items, views)
    return FitData(nodes, nodes.of(frozenset()), kind_rows(encoder, items, views))


def fitting_rows(
    encoder: SentenceEncoder,
    items: Sequence[LabelledRequest],
    struck_weight: float,
    foreign_weight: float,
    seed: int,
) -> FitData:
    """Return the rows to fit on, with extra ones (``rl.judging.augment``) drawn from ``seed``."""
    views = view_replies(encoder, [item.request for item in items])
    generator = derived_random(seed, "embedded judge", "extra rows")
    pools = {
        domain: list(
            {
                (item.task, node.id): (item.task, node)
                for item in items
                if item.domain == domain
                for node in item.request.nodes
            }.values()
        )
        for domain in dict.fromkeys(item.domain for item in items)
    }
    struck = [strike_listed_values(item, generator) for item in items]
    foreign = [foreign_nodes(item, pools[item.domain], generator) for item in items]
    return FitData(
        nodes=node_rows(encoder, items, views),
        extra=join_rows(
            node_rows(encoder, struck, views, struck_weight),
            node_rows(encoder, foreign, views, foreign_weight),
        ),
        kinds=kind_rows(encoder, items, views),
    )


def node_rows(
    encoder: SentenceEncoder,
    items: Sequence[LabelledRequest],
    views: Sequence[ReplyView],
    weight: float = 1.0,
) -> Rows:
    """Return one row for each node of each item; ``views`` are the items' replies."""
    vectors = iter(node_vectors(encoder, [node for item in items for node in item.request.nodes]))
    values = [
        node_features(view, node, next(vectors))
        for item, view in zip(items, views, strict=True)
        for node in item.request.nodes
    ]
    return Rows(
        np.array(values).reshape(len(values), len(NODE_FEATURES)),
        tuple(label.value for item in items for label in item.labels),
        tuple(item.task for item in items for _ in item.labels),
        np.full(len(values), weight),
    )


def kind_rows(
    encoder: SentenceEncoder, items: Sequence[LabelledRequest], views: Sequence[ReplyView]
) -> Rows:
    """Return one row for each item whose kind is labelled; ``views`` are the items' replies."""
    asked = asked_vectors(encoder, views)
    known = [
        (item.task, item.kind.value, view)
        for item, view in zip(items, views, strict=True)
        if item.kind is not None
    ]
    values = [kind_features(view, asked.get(view.asked), encoder) for _, _, view in known]
    return Rows(
        np.array(values).reshape(len(known), len(KIND_FEATURES)),
        tuple(kind for _, kind, _ in known),
        tuple(task for task, _, _ in known),
        np.ones(len(known)),
    )


def join_rows(*parts: Rows) -> Rows:
    """Join rows end to end."""
    return Rows(
        np.concatenate([part.values for part in parts]),
        tuple(label for part in parts for label in part.labels),
        tuple(task for part in parts for task in part.tasks),
        np.concatenate([part.weights for part in parts]),
    )
