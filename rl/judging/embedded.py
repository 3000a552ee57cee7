"""The offline judge: word and embedding features, fitted linear classifiers, no network."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rl.judging.encoder import FloatArray, SentenceEncoder
from rl.judging.evidence import closest_option, evidence_sentence
from rl.judging.features import (
    NODE_FEATURES,
    NodeVectors,
    alternatives_met,
    node_features,
    node_vectors,
)
from rl.judging.interface import (
    AbstainReason,
    Abstention,
    Engagement,
    Judgement,
    JudgeRequest,
    NodeJudgement,
    NodeQuestion,
    ReplyKind,
    Verdict,
)
from rl.judging.kind_features import asked_vectors, kind_features
from rl.judging.linear import Matrix
from rl.judging.options import extract_options
from rl.judging.reply_view import ReplyView, view_replies
from rl.judging.weights_file import DEFAULT_WEIGHTS, JudgeWeights, load_weights


class EmbeddedJudge:
    """Judges replies with fitted classifiers over features of (history, reply, node).

    Deterministic: a request's verdict depends neither on its place in a batch nor on the other
    requests, up to float32 rounding in the encoder. A node's label does not depend on which other
    nodes are asked about. A hit is ``direct`` only from ``direct_threshold`` on, since a false
    discovery misleads training more than a missed one.
    """

    name = "embedded"

    def __init__(
        self,
        encoder: SentenceEncoder | None = None,
        weights: JudgeWeights | Path = DEFAULT_WEIGHTS,
    ) -> None:
        """Use ``encoder`` (the bundled one by default) and ``weights`` (or the file they are in).

        Raises:
            EncoderMissingError: no encoder is installed.
            WeightsError: the weights file cannot be used.
        """
        self.encoder = encoder if encoder is not None else SentenceEncoder()
        self.weights = weights if isinstance(weights, JudgeWeights) else load_weights(weights)

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Judge ``requests``, one verdict each, in order; an empty reply gives an abstention."""
        spoken = [request for request in requests if request.reply.strip()]
        judgements = iter(self._judge_spoken(spoken))
        return [
            next(judgements)
            if request.reply.strip()
            else Abstention(self.name, AbstainReason.EMPTY_REPLY)
            for request in requests
        ]

    def _judge_spoken(self, requests: Sequence[JudgeRequest]) -> list[Judgement]:
        """Judge replies that are not empty."""
        views = view_replies(self.encoder, requests)
        asked = asked_vectors(self.encoder, views)
        vectors = iter(
            node_vectors(self.encoder, [node for request in requests for node in request.nodes])
        )
        return [
            self._judgement(
                request, view, asked.get(view.asked), [next(vectors) for _ in request.nodes]
            )
            for request, view in zip(requests, views, strict=True)
        ]

    def _judgement(
        self,
        request: JudgeRequest,
        view: ReplyView,
        asked: FloatArray | None,
        vectors: Sequence[NodeVectors],
    ) -> Judgement:
        """Decide one reply's kind, its nodes' labels, and what the user may quote."""
        labels = self._labels(view, request.nodes, vectors)
        hit = [
            (node, vector, label)
            for node, vector, label in zip(request.nodes, vectors, labels, strict=True)
            if label is not Engagement.NONE
        ]
        options = extract_options(view.plain)
        return Judgement(
            judge=self.name,
            kind=self._kind(view, asked),
            nodes={
                node.id: NodeJudgement(
                    label=label,
                    near_misses=near_misses(view, node) if label is Engagement.TANGENTIAL else 0,
                    evidence=evidence_sentence(view, node, vector, label),
                )
                for node, vector, label in hit
            },
            options=options,
            closest=closest_option(self.encoder, options, [(node, v) for node, v, _ in hit]),
        )

    def _labels(
        self, view: ReplyView, nodes: Sequence[NodeQuestion], vectors: Sequence[NodeVectors]
    ) -> list[Engagement]:
        """Return one label for each node; a reply without a word engages none."""
        if not nodes or not view.sentences:
            return [Engagement.NONE] * len(nodes)
        rows = np.array(
            [node_features(view, node, v) for node, v in zip(nodes, vectors, strict=True)]
        ).reshape(len(nodes), len(NODE_FEATURES))
        return decide_labels(self.weights, rows)

    def _kind(self, view: ReplyView, asked: FloatArray | None) -> ReplyKind:
        """Return the most probable kind."""
        rows = kind_features(view, asked, self.encoder)[None]
        best = int(self.weights.kind.probabilities(rows)[0].argmax())
        return ReplyKind(self.weights.kind.labels[best])


def decide_labels(weights: JudgeWeights, rows: Matrix) -> list[Engagement]:
    """Return the most probable label of each row, ``direct`` only from its threshold on."""
    shares = weights.node.probabilities(rows)
    direct = weights.node.labels.index(Engagement.DIRECT.value)
    doubtful = shares[:, direct] < weights.direct_threshold
    shares[doubtful, direct] = 0.0
    return [Engagement(weights.node.labels[int(best)]) for best in shares.argmax(axis=1)]


def near_misses(view: ReplyView, node: NodeQuestion) -> int:
    """Count the distinct alternatives that the reply names; 1 where it names none of the listed."""
    return max(1, len(alternatives_met(view, node.alternatives)))
