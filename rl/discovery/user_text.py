"""Cleans a generated user turn: one short paragraph in the person's own voice, or nothing."""

import re

_ROLE = r"(?:user|person|human|you|me|customer|client|assistant|ai|bot|system|reply|message)"
_SPEAKER = rf"^[*_#>\[(<\s-]*{_ROLE}[*_\])>\s]*:[*_]*"
_ROLE_PREFIX = re.compile(_SPEAKER, re.IGNORECASE)
_NEXT_SPEAKER = re.compile(_SPEAKER, re.IGNORECASE | re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)]*$")
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "*": "*", "`": "`"}


def clean_user_text(text: str, max_words: int) -> str:
    """Return ``text`` as one paragraph of at most ``max_words`` words, or "" if nothing is left.

    Leading role names ("User:") and surrounding quotes go, as does everything from the next
    speaker's line on. A text that is too long ends with its last whole sentence within
    ``max_words``; without one it is cut at the word.
    """
    if max_words < 1:
        raise ValueError(f"max_words: {max_words} is not at least 1")
    text = _unwrap(text)
    if next_speaker := _NEXT_SPEAKER.search(text):
        text = text[: next_speaker.start()]
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    paragraph = _unwrap(next((part for part in paragraphs if part), ""))
    if not re.search(r"\w", paragraph):
        return ""
    return _cut(paragraph.split(), max_words)


def _unwrap(text: str) -> str:
    """Drop role prefixes and surrounding quotes until there are none."""
    while True:
        bare = _unquote(_ROLE_PREFIX.sub("", text.strip()).strip())
        if bare == text:
            return text
        text = bare


def _unquote(text: str) -> str:
    """Drop quotes around the whole text, and an opening double quote that is never closed."""
    if not text or text[0] not in _QUOTES:
        return text
    inner, closing = text[1:], _QUOTES[text[0]]
    if inner.endswith(closing) and closing not in inner[:-1]:
        return inner[:-1].strip()
    return inner.strip() if text[0] in '"“' and closing not in inner else text


def _cut(words: list[str], max_words: int) -> str:
    if len(words) <= max_words:
        return " ".join(words)
    kept = words[:max_words]
    for end in range(len(kept), 0, -1):
        if _SENTENCE_END.search(kept[end - 1]):
            return " ".join(kept[:end])
    return " ".join(kept)
