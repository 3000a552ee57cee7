"""The leak check: does a user turn say what the user is not aware of yet (specification §3)?"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from rl.discovery.tree import IntentNode, IntentTree, TreeState

# Typographic quotes, and what Markdown puts around words.
_SIGNS = {"’": "'", "‘": "'", "“": '"', "”": '"', "_": " ", "*": " ", "`": " "}


def leaks(
    text: str, tree: IntentTree, state: TreeState, allowed: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the ids of undiscovered or emerging nodes that ``text`` gives away, in tree order.

    A node is given away by one of its cues, or its whole text, on word boundaries and whatever
    the case, the accents' encoding, the kind of dash, Markdown signs or invisible characters. A
    cue that the user may say anyway is no leak: one found in the text, cues or dimension of a
    discovered node, in the dimension of an emerging node, or in one of the ``allowed`` texts (the
    opening, the option that the user picks).
    """
    said = _normalise(text)
    free = [_normalise(part) for part in (*_speakable(tree, state), *allowed)]
    return tuple(
        node.id
        for node in tree
        if not state.is_discovered(node.id) and _gives_away(said, node, free)
    )


def _speakable(tree: IntentTree, state: TreeState) -> Iterable[str]:
    for node in tree:
        if state.is_discovered(node.id):
            yield from (node.text, node.dimension, *node.cues)
        elif node.id in state.emerging:
            yield node.dimension


def _gives_away(said: str, node: IntentNode, free: Sequence[str]) -> bool:
    for phrase in map(_normalise, (*node.cues, node.text.rstrip("."))):
        if not phrase:  # it would stand in every text
            continue
        pattern = _pattern(phrase)
        if pattern.search(said) and not any(pattern.search(text) for text in free):
            return True
    return False


def _pattern(phrase: str) -> re.Pattern[str]:
    # Look-arounds instead of \b, because a cue may begin or end with a sign ("old mr.").
    return re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)")


def _normalise(text: str) -> str:
    composed = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(map(_plain, composed)).split())


def _plain(sign: str) -> str:
    category = unicodedata.category(sign)
    if category == "Cf":  # zero-width, soft hyphens: nobody sees them
        return ""
    return "-" if category == "Pd" else _SIGNS.get(sign, sign)
