"""Features of a reply on which the offline judge decides its kind."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from rl.judging.encoder import FloatArray, SentenceEncoder
from rl.judging.interface import ReplyKind
from rl.judging.options import announces_options, extract_options
from rl.judging.reply_view import ReplyView
from rl.judging.text import has_markup, is_list_item, words

# What replies of each kind sound like; a reply's sentences are compared with these.
PROTOTYPES: Mapping[ReplyKind, tuple[str, ...]] = MappingProxyType(
    {
        ReplyKind.QUESTION: (
            "Could you tell me more about what you have in mind?",
            "Before I begin, which of these matters most to you, and who is it for?",
        ),
        ReplyKind.OPTIONS: (
            "Here are a few directions it could take.",
            "It might be this, or that, or something else; which one is closest?",
        ),
        ReplyKind.DRAFT: (
            "Here is a draft of it.",
            "She closed the door behind her and walked down to the harbour.",
            "First remove the cover, then turn the screw until it stops.",
        ),
        ReplyKind.CHITCHAT: (
            "Thank you, I am so glad that you like it!",
            "Take your time, I am happy to help whenever you are ready.",
        ),
    }
)

KIND_FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "ask_share": "share of sentences that ask",
        "first_asks": "1 if one of the first two sentences asks",
        "last_asks": "1 if the last sentence asks",
        "questions": "number of sentences that ask, 4 at most",
        "options": "number of options found, 6 at most",
        "options_said": "number found outside the sentences that ask, 6 at most",
        "announces": "1 if the first line announces several things",
        "list": "1 if two or more lines are list items",
        "choices": "words of choice (or, could, might, maybe, perhaps, either) a sentence",
        "markup": "1 if the reply holds SVG or HTML",
        "code": "1 if it holds a code fence or a heading",
        "log_words": "natural log of 1 + words",
        "sentence_words": "natural log of 1 + words a sentence",
        "you_share": "share of words that address the user (you, your)",
        "i_share": "share of words that are I or we",
        "pleasantries": "words of pleasure or thanks a sentence",
        "exclamations": "share of sentences with an exclamation mark",
        "quoted": "1 if quotation marks appear",
        "on_topic": "cosine of the reply's mean clause with the user's last words",
        **{
            f"like_{kind.value}": f"best cosine with a {kind.value} prototype" for kind in ReplyKind
        },
        **{f"mean_{kind.value}": f"mean cosine with {kind.value} prototypes" for kind in ReplyKind},
    }
)

_CHOICE = re.compile(r"\b(?:or|could|might|maybe|perhaps|either|another|version)\b", re.IGNORECASE)
_PLEASANTRY = re.compile(
    r"\b(?:glad|thank(?:s| you)|happy|pleasure|lovely|wonderful|great|delighted|enjoy(?:ing|ed)?|"
    r"fun|welcome|luck|patience|kind|trust|whenever|take (?:all the|your) time)\b",
    re.IGNORECASE,
)


def kind_features(
    view: ReplyView, asked_vector: FloatArray | None, encoder: SentenceEncoder
) -> npt.NDArray[np.float64]:
    """Return the features of one reply, in the order of :data:`KIND_FEATURES`."""
    values = _form_features(view) | _word_features(view) | _likeness(view, asked_vector, encoder)
    return np.array([values[name] for name in KIND_FEATURES])


def asked_vectors(encoder: SentenceEncoder, views: Sequence[ReplyView]) -> dict[str, FloatArray]:
    """Return the unit vector of each user turn that the replies answer, in one go."""
    turns = list(dict.fromkeys(view.asked for view in views if view.asked.strip()))
    return dict(zip(turns, encoder.vectors(turns), strict=True)) if turns else {}


def _form_features(view: ReplyView) -> dict[str, float]:
    """How the reply is built: questions, options, lists, mark-up, lengths."""
    asks = [part.asks for part in view.sentences]
    count = len(words(view.plain))
    return {
        "ask_share": float(np.mean(asks)) if asks else 0.0,
        "first_asks": float(any(asks[:2])),
        "last_asks": float(any(asks[-1:])),
        "questions": float(min(sum(asks), 4)),
        "options": float(min(len(extract_options(view.plain)), 6)),
        "options_said": float(min(len(extract_options(_without_questions(view))), 6)),
        "announces": float(announces_options(view.plain)),
        "list": float(sum(map(is_list_item, view.plain.splitlines())) >= 2),
        "markup": float(has_markup(view.reply)),
        "code": float("```" in view.plain or re.search(r"^#{1,4} ", view.plain, re.M) is not None),
        "log_words": float(np.log1p(count)),
        "sentence_words": float(np.log1p(count / max(len(asks), 1))),
    }


def _without_questions(view: ReplyView) -> str:
    """Return the plain reply without its sentences that ask."""
    said = view.plain
    for part in view.sentences:
        if part.asks:
            said = said.replace(part.text, " ")
    return said


def _word_features(view: ReplyView) -> dict[str, float]:
    """Which words the reply uses to address the user."""
    said = words(view.plain)
    parts = max(len(view.sentences), 1)
    return {
        "choices": len(_CHOICE.findall(view.plain)) / parts,
        "you_share": _share(said, {"you", "your", "yours", "you'd", "you're"}),
        "i_share": _share(said, {"i", "i'd", "i'll", "i'm", "i've", "we", "we'll", "let's"}),
        "pleasantries": len(_PLEASANTRY.findall(view.plain)) / parts,
        "exclamations": sum("!" in part.text for part in view.sentences) / parts,
        "quoted": float(any(mark in view.plain for mark in '"“”')),
    }


def _likeness(
    view: ReplyView, asked_vector: FloatArray | None, encoder: SentenceEncoder
) -> dict[str, float]:
    """How the reply's clauses compare with the prototypes and with what the user said."""
    found: dict[str, float] = {"on_topic": 0.0}
    if len(view.clauses) and asked_vector is not None:
        found["on_topic"] = float((view.clauses @ asked_vector).mean())
    for kind, texts in PROTOTYPES.items():
        cosines = view.clauses @ encoder.vectors(texts).T if len(view.clauses) else np.zeros((1, 1))
        found[f"like_{kind.value}"] = float(cosines.max())
        found[f"mean_{kind.value}"] = float(cosines.mean())
    return found


def _share(said: list[str], wanted: set[str]) -> float:
    """Share of ``said`` words that are among ``wanted``."""
    return sum(word in wanted for word in said) / max(len(said), 1)
