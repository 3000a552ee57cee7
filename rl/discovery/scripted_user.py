"""The scripted user: a turn from a context and a seed, with no model (specification §3)."""

import random

from rl.discovery import phrasing
from rl.discovery.user_context import UserIntentContext, UserMode
from rl.discovery.user_text import clean_user_text
from rl.seeding import derived_random

USUAL_WORDS = 28  # sentences beyond the wish are added while the turn stays within this
MAX_WORDS = 40
OPTION_WORDS = 8
_FIRST_FEW = 2  # a fuzzy or latent turn picks among this many of the most pressing topics


def scripted_turn(context: UserIntentContext, seed: int) -> str:
    """Return what the user says; the same context and seed always give the same words.

    The wish is always said. The preferred option, praise for what was achieved and a second clear
    wish come in, in this order, while there is room.
    """
    choose = derived_random(seed, "scripted user turn")
    spoken = {"wish": _wish(context, choose)}
    for name, sentence in (
        ("option", _preferred_option(context, choose)),
        ("praise", _praise(context, choose)),
        ("second", _second_wish(context, choose)),
    ):
        if sentence and _words(*spoken.values(), sentence) <= USUAL_WORDS:
            spoken[name] = sentence
    in_order = (spoken.get(name, "") for name in ("praise", "option", "wish", "second"))
    return clean_user_text(" ".join(in_order), MAX_WORDS)


def _wish(context: UserIntentContext, choose: random.Random) -> str:
    if context.mode is UserMode.CLEAR:
        return choose.choice(phrasing.CLEAR).format(phrasing.as_clause(context.clear[0]))
    frames, topics = (
        (phrasing.FUZZY, context.fuzzy)
        if context.mode is UserMode.FUZZY
        else (phrasing.LATENT, context.latent)
    )
    frame = choose.choice(frames)
    if not topics:
        return frame.format(phrasing.UNNAMED)
    return frame.format(phrasing.as_topic(choose.choice(topics[:_FIRST_FEW])))


def _preferred_option(context: UserIntentContext, choose: random.Random) -> str:
    if context.option is None:
        return ""
    words = phrasing.as_clause(context.option).split()[:OPTION_WORDS]
    return choose.choice(phrasing.OPTION).format(" ".join(words).rstrip(" .,;:"))


def _praise(context: UserIntentContext, choose: random.Random) -> str:
    if not context.achieved:
        return ""
    text = phrasing.as_clause(choose.choice(context.achieved))
    return choose.choice(phrasing.ACHIEVED).format(text)


def _second_wish(context: UserIntentContext, choose: random.Random) -> str:
    if len(context.clear) < 2:
        return ""
    return choose.choice(phrasing.CLEAR_AGAIN).format(phrasing.as_clause(context.clear[1]))


def _words(*sentences: str) -> int:
    return sum(len(sentence.split()) for sentence in sentences)
