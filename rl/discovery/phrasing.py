"""What a simulated user says without a model: sentence frames, and how texts fit into them.

``{}`` stands for a node's text, a node's dimension or an option, as the table's name says. Frames
are plain, so that no intent's cue can come from a frame.
"""

import re

ACHIEVED = (
    "I like that {}.",
    "Good, this part is right: {}.",
    "Yes, keep that {}.",
)
CLEAR = (
    "I want this: {}.",
    "What I have in mind: {}.",
    "It should be like this: {}.",
    "One thing I know: {}.",
    "For me it matters that {}.",
)
CLEAR_AGAIN = (
    "Also, {}.",
    "And {}.",
    "Besides that, {}.",
)
FUZZY = (
    "I have a vague feeling about {}, but I can't say it clearly yet.",
    "Something about {} matters to me, I just don't know what exactly.",
    "I'm unsure about {}, there is something I can't name yet.",
    "Maybe we should think about {}? I can't say how.",
)
LATENT = (
    "Something about {} feels off, but I can't say what.",
    "I don't know, something about {} isn't right yet.",
    "Hmm, I'm not happy with {} yet, I just can't tell why.",
    "It's not bad, but something about {} doesn't feel right.",
)
OPTION = (
    "Closest is this one: {}.",
    "The nearest for me: {}.",
    "Of those, I lean towards this: {}.",
)
UNNAMED = "all this"


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_FUNCTION_WORDS = _words(
    "a an the this that these those it its it's he she his her they their there we you your "
    "every each all both no some any one two three at in on by for from with when where while "
    "if once after before only nothing nobody someone something"
)
_NO_ARTICLE_BEFORE = _words(
    "a an the this that these those its his her their what who whose whom which how when where "
    "why whether any each every all both"
)


def as_clause(text: str) -> str:
    """Return ``text`` ready to stand inside a sentence: no closing stop, small first letter.

    The first letter stays when the first word may be a name.
    """
    text = " ".join(text.split()).rstrip(" .!?;,:")
    first = text.split(" ", 1)[0]
    return text[:1].lower() + text[1:] if first.lower() in _FUNCTION_WORDS else text


def as_topic(dimension: str) -> str:
    """Return ``dimension`` as the object of "about": with "the" unless it starts a question."""
    topic = " ".join(dimension.split()).rstrip(" .!?;,:")
    first = re.split(r"[\s,]", topic, maxsplit=1)[0].lower()
    bare = first in _NO_ARTICLE_BEFORE or first.endswith(("'s", "’s"))
    return topic if bare else f"the {topic}"
