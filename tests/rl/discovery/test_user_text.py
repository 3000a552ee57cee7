"""Cleaning generated user turns, case by case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.discovery.user_text import clean_user_text


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("  I like it.  ", "I like it."),
        ("I like\nthe  tram.\n", "I like the tram."),
        ("First thought.\n\nSecond thought.", "First thought."),
        ("\n\n\nOnly this.", "Only this."),
        ("User: I like it.", "I like it."),
        ("**User:** I like it.", "I like it."),
        ("[Person]: I like it.", "I like it."),
        ("assistant:\n\nI like it.", "I like it."),
        ('"I like it."', "I like it."),
        ('User: "I like it."', "I like it."),
        ('"User: I like it."', "I like it."),
        ("“I like it.”", "I like it."),
        ("'I like it.'", "I like it."),
        ('"I like it and then', "I like it and then"),
        ('"Yes" or "no"?', '"Yes" or "no"?'),
        ('I want "Blue" as title', 'I want "Blue" as title'),
        ("I'd like the user: a sailor", "I'd like the user: a sailor"),
        ("Fine by me.\nAssistant: Great!\nUser: Bye", "Fine by me."),
        ("Messages should be short", "Messages should be short"),
        ("", ""),
        (" \n ", ""),
        ('""', ""),
        ("...", ""),
        ("User:", ""),
    ],
)
def test_cleaning(raw, clean):
    assert clean_user_text(raw, 40) == clean


@pytest.mark.parametrize(
    ("raw", "max_words", "clean"),
    [
        ("One two three.", 3, "One two three."),
        ("One two. Three four. Five six.", 5, "One two. Three four."),
        ("One two? Three four five", 4, "One two?"),
        ('He said "go." Then more words', 4, 'He said "go."'),
        ("one two three four five", 3, "one two three"),
    ],
)
def test_cut(raw, max_words, clean):
    assert clean_user_text(raw, max_words) == clean


def test_room_for_no_word_is_refused():
    with pytest.raises(ValueError, match="max_words"):
        clean_user_text("hello", 0)


@given(st.text(max_size=200), st.integers(1, 12))
def test_one_paragraph_within_the_limit_and_stable(raw, max_words):
    clean = clean_user_text(raw, max_words)
    assert len(clean.split()) <= max_words
    assert clean == " ".join(clean.split())


@given(st.lists(st.sampled_from(["I", "like", "trams.", "no?", "sea"]), min_size=1, max_size=30))
def test_plain_words_are_kept_as_they_are(words):
    text = " ".join(words)
    assert text.startswith(clean_user_text(text, 20))
    assert clean_user_text(text, 30) == text
