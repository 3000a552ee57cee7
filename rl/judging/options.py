"""Finds the options that a reply offers: lists, "A, B or C", lettered runs, "one version …"."""

import re
from collections.abc import Iterable

from rl.judging.text import is_list_item, sentences, strip_list_mark, strip_markup, words

MOST_OPTIONS = 12

_INLINE_MARK = re.compile(r"(?:^|(?<=\s))\(?(?:[a-dA-D]|[1-9])\)\s*")
_LEAD = re.compile(
    r"^(?:perhaps|maybe|or\b|either|(?:in )?(?:one|another)\b|(?:in )?(?:the |a )?(?:first|second|"
    r"third|fourth|other)\b|version\b|option\b|the last\b|"
    r"(?:it|he|she|they|we|you|i) (?:could|might)\b)",
    re.IGNORECASE,
)
_OR = re.compile(r",?\s+or\s+(?:else\s+|maybe\s+|perhaps\s+)?", re.IGNORECASE)
_BEFORE_CHOICE = re.compile(r"^.*(?::|\s[–—-]\s|—|\beither\b|\bwhether\b)\s*", re.IGNORECASE)
_ANNOUNCED = re.compile(
    r"\b(?:two|three|four|five|some|several|a few|a couple|these|ideas|options|could be)\b.*[:.,]$",
    re.IGNORECASE,
)
_OPENING_PHRASE = re.compile(
    r"^(?:and |then )?(?:to|for|as|at|in|on|if|with|after|before)\b", re.IGNORECASE
)
_EDGE = ' \t\n,;:.?!"“”*_'


def extract_options(text: str) -> tuple[str, ...]:
    """Return the options that ``text`` offers, in order, without their list marks.

    The most explicit form wins: list items, then an inline (a) … (b) … run, then the lines after
    an announcement such as "Three ways in:", then a run of sentences such as "One version … . In
    another …", then every "A, B or C" and "A; B; C". A form counts only with two options or more;
    none gives an empty tuple.
    """
    plain = strip_markup(text)
    for form in (_list_items, _inline_items, _announced_lines, _versions, _choices):
        if len(options := _distinct(form(plain))) >= 2:
            return options
    return ()


def announces_options(text: str) -> bool:
    """Return whether the first line of ``text`` announces some, as in "Three ways in:"."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return _ANNOUNCED.search(first) is not None


def _list_items(text: str) -> list[str]:
    """Return the lines that open with a bullet, number or letter."""
    return [strip_list_mark(line) for line in text.splitlines() if is_list_item(line)]


def _inline_items(text: str) -> list[str]:
    """Return the parts of a line that carry marks such as (a) or 2), up to the end of each part."""
    found: list[str] = []
    for line in text.splitlines():
        marks = list(_INLINE_MARK.finditer(line))
        ends = [*(mark.start() for mark in marks[1:]), len(line)]
        for mark, end in zip(marks, ends, strict=False):
            part = line[mark.end() : end]
            found.append(_until_sentence_end(re.sub(r"[,;]?\s*(?:or|and)?\s*$", "", part)))
    return found


def _announced_lines(text: str) -> list[str]:
    """Return the lines that follow a line such as "Three ways in:", questions left out."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) < 3 or not announces_options(text):
        return []
    return [line for line in lines[1:] if not line.endswith("?")]


def _versions(text: str) -> list[str]:
    """Return the longest run of neighbouring sentences that each open a possibility."""
    best: list[str] = []
    run: list[str] = []
    for sentence in sentences(text):
        if _LEAD.match(sentence.text) and not sentence.asks:
            run.append(sentence.text)
            best = max(best, list(run), key=len)
        else:
            run = []
    return best


def _choices(text: str) -> list[str]:
    """Return the parts of every "A, B or C", and of "A; B; C" with or without an "or"."""
    found: list[str] = []
    for sentence in sentences(text):
        choice = _BEFORE_CHOICE.sub("", sentence.text, count=1)
        if choice.count(";") >= 2 or (";" in choice and _OR.search(choice)):
            found.extend(re.split(r";\s*(?:or\s+|and\s+)?", choice))
        elif _OR.search(sentence.text):
            parts = _without_opening(re.split(r",\s*(?:or\s+)?|\s+or\s+", choice))
            found.extend(parts if len(parts) >= 2 else _OR.split(sentence.text))
    return found


def _without_opening(parts: list[str]) -> list[str]:
    """Drop blank parts, and an opening phrase ("To hint at adventures, …") before the choices."""
    kept = [part for part in parts if part.strip(_EDGE)]
    return kept[1:] if len(kept) > 2 and _OPENING_PHRASE.match(kept[0]) else kept


def _until_sentence_end(text: str) -> str:
    """Cut a part at the end of its first sentence."""
    return re.split(r"(?<=[.?!])\s", text, maxsplit=1)[0]


def _distinct(options: Iterable[str]) -> tuple[str, ...]:
    """Trim options, and drop empty and repeated ones."""
    trimmed = (option.replace("**", "").strip(_EDGE) for option in options)
    return tuple(dict.fromkeys(option for option in trimmed if words(option)))[:MOST_OPTIONS]
