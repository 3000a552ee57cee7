import pytest

from rl.judging.text import (
    asks_user,
    clause_spans,
    contains_phrase,
    content_stems,
    has_markup,
    is_list_item,
    sentences,
    stem,
    strip_list_mark,
    strip_markup,
    word_spans,
    words,
)


@pytest.mark.parametrize(
    ("text", "phrase", "expected"),
    [
        ("The bus is late", "bus", True),
        ("The buses are late", "bus", False),
        ("a business trip", "bus", False),
        ("WORKS  ON\nthe line", "works on", True),
        ("networks on", "works on", False),
        ('{"items": []}', '"items"', True),
        ("**Cause** unknown", "**cause**", True),
        ("1. Take it off", "1.", True),
        ("11. Take it off", "1.", False),
        ("You’ll think the job is easy", "you'll think the job is", True),
        ("anything", " ", False),
    ],
)
def test_phrases_match_on_word_boundaries(text, phrase, expected):
    assert contains_phrase(text, phrase) is expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("buses", "bus"),
        ("classes", "class"),
        ("stories", "story"),
        ("stopped", "stop"),
        ("passing", "pass"),
        ("driver's", "driver"),
        ("moths", "moth"),
        ("is", "is"),
        ("bed", "bed"),
    ],
)
def test_stem(word, expected):
    assert stem(word) == expected


def test_forms_of_one_word_share_a_stem():
    assert stem("painting") == stem("painted") == stem("paint")
    assert stem("horse") == stem("horses")


def test_content_stems_leave_function_words_out():
    assert content_stems("What is the kind of transport?") == {"kind", "transport"}


def test_words_keep_inner_apostrophes():
    assert words("It's the Driver’s bus, n° 7!") == ["it's", "the", "driver's", "bus", "n", "7"]


def test_word_spans_are_character_offsets():
    assert word_spans("a red moth") == [(0, 1), (2, 5), (6, 10)]


def test_markup_goes_but_its_text_and_comments_stay():
    svg = 'A moth. <svg viewBox="0 0 9 9"><!-- wings --><text>Night</text><path d="M0 0"/></svg>'
    assert strip_markup(svg).split() == ["A", "moth.", "wings", "Night"]


@pytest.mark.parametrize("cut", ["<path", '<path d="M0 0 12', "<rect x='1' y=", "</sv"])
def test_a_tag_cut_off_by_the_token_limit_goes_too(cut):
    assert strip_markup(f"A moth. {cut}").strip() == "A moth."


def test_comparisons_are_not_markup():
    text = "if x <y and a < b then stop"
    assert strip_markup(text) == text
    assert not has_markup(text)
    assert has_markup("<b>bold</b>")


def test_sentences_split_at_ends_and_lines_but_not_at_abbreviations():
    found = sentences("Mr. Smith waited. Did he? Yes!\n- a cello\n\n2) a goat")
    assert [part.text for part in found] == [
        "Mr. Smith waited.",
        "Did he?",
        "Yes!",
        "a cello",
        "a goat",
    ]
    assert [part.asks for part in found] == [False, True, False, False, False]
    assert [part.item for part in found] == [False, False, False, True, True]


def test_text_without_words_has_no_sentences():
    assert sentences("…\n--- \n<svg></svg>") == ()


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Which tone do you want?", True),
        ('Shall it end with "never again?"', True),
        ("Tell me about the driver.", True),
        ("I'd love to know where it plays.", True),
        ("She asked him nothing.", False),
    ],
)
def test_asks_user(sentence, expected):
    assert asks_user(sentence) is expected


def test_clauses_split_at_commas_and_before_a_second_question():
    sentence = "What kind of bus, and who drives it and where does it end?"
    assert [sentence[a:b] for a, b in clause_spans(sentence)] == [
        "What kind of bus,",
        "and who drives it",
        "and where does it end?",
    ]


def test_a_one_word_clause_joins_the_next():
    sentence = "Well, it could be a tram"
    assert [sentence[a:b] for a, b in clause_spans(sentence)] == [sentence]


@pytest.mark.parametrize("line", ["- a", "• a", "1. a", "12) a", "(a) a", "B. a", "(2) a"])
def test_list_items(line):
    assert is_list_item(line)
    assert strip_list_mark(line) == "a"


@pytest.mark.parametrize("line", ["9:30 Taxi", "3.5 miles", "A tram", "-5 degrees", "a"])
def test_what_is_no_list_item(line):
    assert not is_list_item(line)
