import pytest

from rl.judging.options import MOST_OPTIONS, extract_options


@pytest.mark.parametrize(
    ("reply", "options"),
    [
        ("Three ways in.\n1. A ferry.\n2. A tram\n\nWhich one?", ("A ferry", "A tram")),
        ("– a ring of salt\n– a spare candle, lit", ("a ring of salt", "a spare candle, lit")),
        (
            "It could be (a) landmarks, as in Mill, or (b) trades. Which one?",
            ("landmarks, as in Mill", "trades"),
        ),
        ("Three doors:\n\nA campfire tale.\n\nA list.\n\nWhich?", ("A campfire tale", "A list")),
        (
            "Two of them. One version is sad. In another, they laugh. Good?",
            ("One version is sad", "In another, they laugh"),
        ),
        ("Ideas: a pot; a cake; or a nest.", ("a pot", "a cake", "a nest")),
        (
            "Some towns: buses in rows; trains on rings; cable cars.",
            ("buses in rows", "trains on rings", "cable cars"),
        ),
        ("Should it be a ferry, a tram or a train?", ("Should it be a ferry", "a tram", "a train")),
        (
            "To hint at it, I might add skis, or tie down hens.",
            ("I might add skis", "tie down hens"),
        ),
        ("She closed the door and walked away.", ()),
        ("", ()),
    ],
)
def test_options(reply, options):
    assert extract_options(reply) == options


def test_an_opening_phrase_before_three_choices_is_no_option():
    reply = "For the close, I could show a coin, a shell or a badge."
    assert extract_options(reply) == ("I could show a coin", "a shell", "a badge")


def test_repeated_options_count_once_and_there_is_a_limit():
    assert extract_options("- a cat\n- a cat") == ()
    many = "\n".join(f"- option number {i}" for i in range(30))
    assert len(extract_options(many)) == MOST_OPTIONS


def test_a_timetable_is_no_list():
    assert extract_options("9:30 Taxi\n10:15 Market\n12:00 Lunch") == ()
