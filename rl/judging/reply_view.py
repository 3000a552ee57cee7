"""One reply taken apart for the offline judge: sentences, clauses, short word runs, embeddings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rl.judging.encoder import Encoding, FloatArray, SentenceEncoder
from rl.judging.interface import JudgeRequest
from rl.judging.text import (
    STOPWORDS,
    Sentence,
    content_stems,
    sentences,
    strip_markup,
    word_spans,
)

LONGEST_RUN = 3  # words in a run


@dataclass(frozen=True)
class ReplyView:
    """What the features read of one reply; c clauses, r word runs, d the embedding size.

    ``plain`` is the reply without mark-up. ``asked`` is the user turn that it answers, with its
    content stems ``asked_stems``: repeating those tells the user nothing new. Earlier turns are
    left out, since what an earlier reply showed too soon may count now. ``stems`` are those of
    each sentence. ``clauses`` (c, d) are unit vectors, ``clause_asks`` (c,) says whether a
    clause's sentence asks, ``clause_sentence`` (c,) is the index of that sentence. ``runs`` (r, d)
    are unit vectors of one to three neighbouring words in context.
    """

    reply: str
    plain: str
    asked: str
    asked_stems: frozenset[str]
    sentences: tuple[Sentence, ...]
    stems: tuple[frozenset[str], ...]
    clauses: FloatArray
    clause_asks: npt.NDArray[np.bool_]
    clause_sentence: npt.NDArray[np.int64]
    runs: FloatArray


def view_replies(encoder: SentenceEncoder, requests: Sequence[JudgeRequest]) -> list[ReplyView]:
    """Take the replies of ``requests`` apart, encoding all their sentences in one go."""
    split = [sentences(request.reply) for request in requests]
    encodings = iter(encoder.encode(part.text for parts in split for part in parts))
    return [
        _view(request, parts, [next(encodings) for _ in parts])
        for request, parts in zip(requests, split, strict=True)
    ]


def _view(
    request: JudgeRequest, parts: tuple[Sentence, ...], encodings: list[Encoding]
) -> ReplyView:
    """Collect the pieces of one reply; without any sentence every array has no rows."""
    asked = last_user_turn(request)
    clauses = [enc.span_vectors(part.clauses) for part, enc in zip(parts, encodings, strict=True)]
    runs = [
        enc.span_vectors(spans)
        for part, enc in zip(parts, encodings, strict=True)
        if (spans := run_spans(part.text))
    ]
    sizes = [len(part.clauses) for part in parts]
    return ReplyView(
        reply=request.reply,
        plain=strip_markup(request.reply),
        asked=asked,
        asked_stems=content_stems(asked),
        sentences=parts,
        stems=tuple(content_stems(part.text) for part in parts),
        clauses=_stack(clauses),
        clause_asks=np.repeat(np.array([part.asks for part in parts], bool), sizes),
        clause_sentence=np.repeat(np.arange(len(parts)), sizes),
        runs=_stack(runs),
    )


def last_user_turn(request: JudgeRequest) -> str:
    """Return what the user said last before the reply, or an empty text."""
    return next((text for role, text in reversed(request.history) if role == "user"), "")


def run_spans(sentence: str) -> list[tuple[int, int]]:
    """Return the spans of one to three neighbouring words that begin and end on a content word."""
    spans = word_spans(sentence)
    content = [sentence[start:end].lower() not in STOPWORDS for start, end in spans]
    return [
        (spans[first][0], spans[last][1])
        for length in range(LONGEST_RUN)
        for first in range(len(spans) - length)
        if content[first] and content[last := first + length]
    ]


def _stack(parts: Sequence[FloatArray]) -> FloatArray:
    """Join row blocks; without any, return an array of no rows that still multiplies."""
    return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)
