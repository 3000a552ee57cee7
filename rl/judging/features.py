"""Features of (history, reply, node), on which the offline judge decides a node's label."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from rl.judging.encoder import FloatArray, SentenceEncoder
from rl.judging.interface import NodeQuestion
from rl.judging.reply_view import ReplyView
from rl.judging.text import contains_phrase, content_stems, is_list_item, words

MET_SHARE = 0.5  # share of an alternative's content words that one sentence must hold

NODE_FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "cue": "1 if a cue stands in the reply and not in the user turn it answers",
        "more_cues": "1 if two or more such cues do",
        "cue_echo": "1 if the reply's only cues stood in that turn already",
        "cue_stems": "best share of a cue's new content stems in one sentence",
        "text_share": "best share of the text's new content stems in one sentence",
        "alternative_share": "best share of an alternative's new content stems in one sentence",
        "alternatives_met": "number of alternatives with half of those stems in one sentence",
        "alternative_exact": "1 if an alternative stands in the reply word for word",
        "dimension_asked": "best share of the dimension's content stems in a sentence that asks",
        "dimension_share": "best share of the dimension's new content stems in one sentence",
        "text_ask": "best cosine of the text with a clause that asks (0 without one)",
        "text_say": "best cosine of the text with a clause that does not ask",
        "dimension_ask": "best cosine of the dimension with a clause that asks",
        "dimension_say": "best cosine of the dimension with a clause that does not ask",
        "alternative_clause": "best cosine of an alternative with a clause",
        "cue_clause": "best cosine of a cue with a clause",
        "alternative_margin": "at that clause, the alternative's cosine less the text's",
        "alternative_run": "best cosine of an alternative with a run of words",
        "cue_run": "best cosine of a cue with a run of words",
        "text_run": "best cosine of the text with a run of words",
        "dimension_run": "best cosine of the dimension with a run of words",
        "type_run": "best cosine of a run with the mean of text and alternatives",
        "type_pair_run": "best mean of a run's two highest cosines with text and alternatives",
        "ask_share": "share of the reply's sentences that ask",
        "asks": "1 if any sentence asks",
        "log_words": "natural log of 1 + the reply's words",
        "list": "1 if two or more lines are list items",
        "svg": "1 if the reply holds SVG",
        "alternative_words": "mean number of words of an alternative (3 without any)",
        "dimension_words": "number of words of the dimension",
        "alternative_spread": "mean cosine between alternatives: how narrow a type they name",
    }
)


@dataclass(frozen=True)
class NodeVectors:
    """Unit vectors of one node's texts: (d,) each, (alternatives, d) and (cues, d)."""

    text: FloatArray
    dimension: FloatArray
    alternatives: FloatArray
    cues: FloatArray


def node_vectors(encoder: SentenceEncoder, nodes: Sequence[NodeQuestion]) -> list[NodeVectors]:
    """Encode the texts of ``nodes`` in one go; they stay in the encoder's cache."""
    texts = [_node_texts(node) for node in nodes]
    if not texts:
        return []
    rows = encoder.vectors(text for group in texts for text in group)
    blocks = np.split(rows, np.cumsum([len(group) for group in texts])[:-1])
    return [
        NodeVectors(
            text=block[0],
            dimension=block[1],
            alternatives=block[2 : 2 + len(node.alternatives)],
            cues=block[2 + len(node.alternatives) :],
        )
        for node, block in zip(nodes, blocks, strict=True)
    ]


def node_features(
    view: ReplyView, node: NodeQuestion, vectors: NodeVectors
) -> npt.NDArray[np.float64]:
    """Return the features of one node, in the order of :data:`NODE_FEATURES`.

    A best value over nothing (no asking clause, no alternatives) is 0.
    """
    values = (
        _word_features(view, node)
        | _clause_features(view, vectors)
        | _run_features(view, vectors)
        | _reply_features(view)
        | _type_features(node, vectors)
    )
    return np.array([values[name] for name in NODE_FEATURES])


def alternatives_met(view: ReplyView, alternatives: Iterable[str]) -> tuple[str, ...]:
    """Return the alternatives whose new content stems stand, half or more, in one sentence."""
    return tuple(
        alternative
        for alternative in alternatives
        if _best_share(content_stems(alternative) - view.asked_stems, view.stems) >= MET_SHARE
    )


def new_cues(view: ReplyView, cues: Iterable[str]) -> tuple[str, ...]:
    """Return the cues that stand in the reply and not in the user turn it answers."""
    return tuple(
        cue
        for cue in cues
        if contains_phrase(view.plain, cue) and not contains_phrase(view.asked, cue)
    )


def _word_features(view: ReplyView, node: NodeQuestion) -> dict[str, float]:
    """Features from words alone."""
    cues = new_cues(view, node.cues)
    echoed = any(contains_phrase(view.plain, cue) for cue in node.cues)
    known = view.asked_stems
    dimension = content_stems(node.dimension)
    asking = [stems for part, stems in zip(view.sentences, view.stems, strict=True) if part.asks]
    alternatives = [content_stems(text) - known for text in node.alternatives]
    return {
        "cue": float(bool(cues)),
        "more_cues": float(len(cues) > 1),
        "cue_echo": float(echoed and not cues),
        "cue_stems": max(
            (
                _best_share(stems - known or stems, view.stems)
                for stems in map(content_stems, node.cues)
            ),
            default=0.0,
        ),
        "text_share": _best_share(content_stems(node.text) - known, view.stems),
        "alternative_share": max(
            (_best_share(stems, view.stems) for stems in alternatives), default=0.0
        ),
        "alternatives_met": float(len(alternatives_met(view, node.alternatives))),
        "alternative_exact": float(
            any(contains_phrase(view.plain, text) for text in node.alternatives)
        ),
        "dimension_asked": _best_share(dimension, asking),
        "dimension_share": _best_share(dimension - known, view.stems),
    }


def _clause_features(view: ReplyView, vectors: NodeVectors) -> dict[str, float]:
    """Cosines with clauses; asking and other clauses apart for text and dimension."""
    if not len(view.clauses):
        return dict.fromkeys(
            (
                "text_ask",
                "text_say",
                "dimension_ask",
                "dimension_say",
                "alternative_clause",
                "cue_clause",
                "alternative_margin",
            ),
            0.0,
        )
    text, dimension = view.clauses @ vectors.text, view.clauses @ vectors.dimension
    margin = 0.0
    if len(vectors.alternatives):
        nearest = (view.clauses @ vectors.alternatives.T).max(axis=1)
        best = int(nearest.argmax())
        margin = float(nearest[best] - text[best])
    return {
        "text_ask": _highest(text[view.clause_asks]),
        "text_say": _highest(text[~view.clause_asks]),
        "dimension_ask": _highest(dimension[view.clause_asks]),
        "dimension_say": _highest(dimension[~view.clause_asks]),
        "alternative_clause": _highest(view.clauses @ vectors.alternatives.T),
        "cue_clause": _highest(view.clauses @ vectors.cues.T),
        "alternative_margin": margin,
    }


def _run_features(view: ReplyView, vectors: NodeVectors) -> dict[str, float]:
    """Cosines with runs of words, among them how like the node's own values a run is."""
    names = (
        "alternative_run",
        "cue_run",
        "text_run",
        "dimension_run",
        "type_run",
        "type_pair_run",
    )
    if not len(view.runs):
        return dict.fromkeys(names, 0.0)
    values = np.concatenate([vectors.alternatives, vectors.text[None]])
    centre = values.mean(axis=0)
    cosines = np.sort(view.runs @ values.T, axis=1)
    found: tuple[float, ...] = (
        _highest(view.runs @ vectors.alternatives.T),
        _highest(view.runs @ vectors.cues.T),
        _highest(view.runs @ vectors.text),
        _highest(view.runs @ vectors.dimension),
        _highest(view.runs @ (centre / np.linalg.norm(centre))),
        _highest(cosines[:, -2:].mean(axis=1)),
    )
    return dict(zip(names, found, strict=True))


def _reply_features(view: ReplyView) -> dict[str, float]:
    """Features of the reply that are the same for every node."""
    asking = [part.asks for part in view.sentences]
    return {
        "ask_share": float(np.mean(asking)) if asking else 0.0,
        "asks": float(any(asking)),
        "log_words": float(np.log1p(len(words(view.plain)))),
        "list": float(sum(map(is_list_item, view.plain.splitlines())) >= 2),
        "svg": float("<svg" in view.reply.lower()),
    }


def _type_features(node: NodeQuestion, vectors: NodeVectors) -> dict[str, float]:
    """Features of the node that are the same for every reply."""
    lengths = [len(words(text)) for text in node.alternatives]
    pairs = np.triu_indices(len(node.alternatives), 1)
    spread = (vectors.alternatives @ vectors.alternatives.T)[pairs]
    return {
        "alternative_words": float(np.mean(lengths)) if lengths else 3.0,
        "dimension_words": float(len(words(node.dimension))),
        "alternative_spread": float(spread.mean()) if len(spread) else 0.0,
    }


def _node_texts(node: NodeQuestion) -> list[str]:
    """The texts of a node that are embedded."""
    return [node.text, node.dimension, *node.alternatives, *node.cues]


def _best_share(wanted: frozenset[str], pools: Sequence[frozenset[str]]) -> float:
    """Largest share of ``wanted`` that one pool holds; 0 if either is empty."""
    if not wanted:
        return 0.0
    return max((len(wanted & pool) / len(wanted) for pool in pools), default=0.0)


def _highest(values: FloatArray) -> float:
    """Largest value of an array, 0 of an empty one."""
    return float(values.max()) if values.size else 0.0
