"""Plain-text tools of the offline judge: words, stems, cues, sentences, clauses, questions."""

import re
from dataclasses import dataclass
from functools import lru_cache

_FUNCTION_WORDS = """
    a about above after again against all also am an and any are as at be because been before
    being below between both but by can could did do does doing down during each few for from
    further had has have having he her here hers him his how i if in into is it its itself just
    let like made make me might more most must my no nor not now of off on once one only or other
    our out over own per rather s same shall she should so some such t than that the their them
    then there these they thing things this those through to too two under until up us very was we
    were what when where which while who whom whose why will with would you your yes
"""
STOPWORDS = frozenset(_FUNCTION_WORDS.split())

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_TAG = re.compile(
    r"<!--(.*?)(?:-->|\Z)|</?[a-zA-Z!][^<>]*>"
    r"|<[a-zA-Z][\w:-]*\s[^<>]*=[^<>]*\Z|</?[a-zA-Z]*\Z",  # a tag cut off by the token limit
    re.DOTALL,
)
_STYLE = re.compile(r"<style\b.*?(?:</style>|\Z)", re.DOTALL | re.IGNORECASE)
_LIST_MARK = re.compile(
    r"^\s*(?:[-*•–—]\s+|\(?\d{1,2}[.):](?!\d)\s*|\(?[a-hA-H][.)]\s+|\([a-hA-H]\)\s*)"
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]*]*\s+")
_ABBREVIATION = re.compile(r"\b(?:mr|mrs|ms|dr|st|e\.g|i\.e|etc|vs)\.[\"'”’)]*\s*$", re.IGNORECASE)
_QUESTION_WORD = (
    r"(?:what|which|who|whose|whom|where|when|why|how|is|are|was|were|do|does|did|should|shall|"
    r"would|will|can|could|has|have|any|anything)"
)
_CLAUSE_END = re.compile(
    rf"[;:,]\s+|\s+[–—-]\s+|—|\s+(?=(?:and|or|but)\s+{_QUESTION_WORD}\b)", re.IGNORECASE
)
_ASKING = re.compile(
    r"\b(?:tell me|let me know|i(?:'d| would) (?:like|love) to (?:know|hear)|i need to know|"
    r"i wonder|i'm wondering|could you (?:share|say|tell|describe)|can you (?:share|say|tell|"
    r"describe)|please (?:share|describe|specify|tell)|do say|say (?:what|which|who|how|where))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Sentence:
    """One sentence of a reply, without list mark or mark-up.

    ``asks`` is set when it asks the user something; ``item`` when it opens an item of a list.
    ``clauses`` are the (start, end) character spans of its clauses.
    """

    text: str
    asks: bool
    item: bool
    clauses: tuple[tuple[int, int], ...]


def strip_markup(text: str) -> str:
    """Remove SVG and HTML tags and style sheets; comments and the text between tags stay."""
    return _TAG.sub(lambda tag: f" {tag.group(1) or ''} ", _STYLE.sub(" ", text))


def has_markup(text: str) -> bool:
    """Return whether ``text`` holds SVG or HTML tags."""
    return _TAG.search(text) is not None


def words(text: str) -> list[str]:
    """Return the lower-case words of ``text``; apostrophes inside a word are kept."""
    return [word.replace("’", "'") for word in _WORD.findall(text.lower())]


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Cut the commonest English endings: buses → bus, passing → pass, worked → work."""
    word = word.removesuffix("'s").removesuffix("'")
    for ending, replacement in (
        ("ies", "y"),
        ("sses", "ss"),
        ("ing", ""),
        ("edly", ""),
        ("ed", ""),
    ):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return _undouble(word.removesuffix(ending) + replacement)
    for ending in ("ches", "shes", "xes", "uses", "ses"):
        if word.endswith(ending) and len(word) - 2 >= 3:
            return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) >= 4:
        word = word[:-1]
    return word.removesuffix("e") if len(word) >= 5 else word


def _undouble(word: str) -> str:
    """Undo a doubled last consonant (stopp → stop) and drop a final e."""
    if len(word) >= 4 and word[-1] == word[-2] and word[-1] not in "lsz":
        return word[:-1]
    return word.removesuffix("e") if len(word) >= 5 else word


@lru_cache(maxsize=16384)
def content_stems(text: str) -> frozenset[str]:
    """Return the stems of the words of ``text`` that carry content (no stopwords)."""
    return frozenset(stem(word) for word in words(text) if word not in STOPWORDS)


@lru_cache(maxsize=16384)
def _phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Compile ``phrase`` for matching on word boundaries, with any run of spaces inside."""
    parts = [re.escape(part) for part in phrase.lower().replace("’", "'").split()]
    body = r"\s+".join(parts)
    start = r"(?<!\w)" if phrase[:1].isalnum() else ""
    end = r"(?!\w)" if phrase[-1:].isalnum() else ""
    return re.compile(f"{start}{body}{end}")


def contains_phrase(text: str, phrase: str) -> bool:
    """Return whether ``phrase`` stands in ``text`` as whole words, in any case.

    Only an end of the phrase that is a letter or digit needs a boundary, so that marks such as
    ``"items"`` or ``1.`` match as they stand. A blank phrase never matches.
    """
    if not phrase.strip():
        return False
    return _phrase_pattern(phrase.strip()).search(text.lower().replace("’", "'")) is not None


@lru_cache(maxsize=4096)
def sentences(text: str) -> tuple[Sentence, ...]:
    """Split ``text`` into sentences: at line ends, and after . ! ? … within a line."""
    found: list[Sentence] = []
    for line in strip_markup(text).splitlines():
        item = is_list_item(line)
        for part in _split_line(strip_list_mark(line)):
            found.append(Sentence(part, asks_user(part), item, clause_spans(part)))
            item = False
    return tuple(found)


def _split_line(line: str) -> list[str]:
    """Split one line at sentence ends, leaving abbreviations such as "Mr." whole."""
    parts: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(line):
        if not _ABBREVIATION.search(line[start : end.end()]):
            parts.append(line[start : end.end()])
            start = end.end()
    parts.append(line[start:])
    cleaned = (part.replace("**", "").strip("#*_ \t") for part in parts)
    return [part for part in cleaned if _WORD.search(part)]


def is_list_item(line: str) -> bool:
    """Return whether ``line`` opens with a bullet, a number or a letter mark."""
    return _LIST_MARK.match(line) is not None


def strip_list_mark(line: str) -> str:
    """Remove a leading bullet, number or letter mark."""
    return _LIST_MARK.sub("", line)


def asks_user(sentence: str) -> bool:
    """Return whether a sentence asks: a question mark at its end, or words such as "tell me"."""
    return sentence.rstrip("\"'”’)* ").endswith("?") or _ASKING.search(sentence) is not None


def clause_spans(sentence: str) -> tuple[tuple[int, int], ...]:
    """Return character spans of the clauses of ``sentence``; a short one joins its neighbour."""
    cuts = [match.end() for match in _CLAUSE_END.finditer(sentence)]
    spans: list[tuple[int, int]] = []
    start = 0
    for cut in [*cuts, len(sentence)]:
        if len(_WORD.findall(sentence[start:cut])) >= 2 or cut == len(sentence):
            spans.append((start, len(sentence[:cut].rstrip())))
            start = cut
    return tuple(spans)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return the (start, end) character span of every word of ``text``."""
    return [match.span() for match in _WORD.finditer(text)]
