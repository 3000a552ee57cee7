import numpy as np

from rl.judging.interface import JudgeRequest
from rl.judging.reply_view import last_user_turn, run_spans, view_replies


def test_runs_begin_and_end_on_a_content_word():
    text = "the ring of salt"
    assert [text[a:b] for a, b in run_spans(text)] == ["ring", "salt", "ring of salt"]


def test_last_user_turn_is_the_one_answered():
    history = (("user", "first"), ("assistant", "reply"), ("user", "second"))
    assert last_user_turn(JudgeRequest(history, "x", ())) == "second"
    assert last_user_turn(JudgeRequest((("system", "s"),), "x", ())) == ""


def test_pieces_of_a_reply(encoder, ask):
    [view] = view_replies(encoder, [ask("A ferry, or a tram. Which one do you like?")])
    assert len(view.sentences) == 2
    assert view.clauses.shape == (3, 384)
    assert view.clause_asks.tolist() == [False, False, True]
    assert view.clause_sentence.tolist() == [0, 0, 1]
    assert view.stems[0] == {"ferry", "tram"}
    assert {"transport", "story"} <= view.asked_stems
    np.testing.assert_allclose(np.linalg.norm(view.clauses, axis=1), 1.0, atol=1e-5)


def test_a_reply_of_marks_only_has_no_pieces(encoder, ask):
    [view] = view_replies(encoder, [ask("...")])
    assert (view.sentences, len(view.clauses), len(view.runs)) == ((), 0, 0)
