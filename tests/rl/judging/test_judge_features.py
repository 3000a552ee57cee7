import numpy as np
import pytest

from rl.judging.features import (
    NODE_FEATURES,
    NodeVectors,
    alternatives_met,
    new_cues,
    node_features,
    node_vectors,
)
from rl.judging.interface import NodeQuestion
from rl.judging.kind_features import KIND_FEATURES, kind_features
from rl.judging.reply_view import view_replies

NODE = NodeQuestion(
    "1", "A red moth.", "kind of animal", ("moth", "red wings"), ("brown owl", "bat")
)
R = np.float32(np.sqrt(0.5))
VECTORS = NodeVectors(
    text=np.array([1, 0], np.float32),
    dimension=np.array([0, 1], np.float32),
    alternatives=np.array([[R, R], [0, -1]], np.float32),
    cues=np.array([[1, 0], [0.6, 0.8]], np.float32),
)


def features(view, node=NODE, vectors=VECTORS):
    return dict(zip(NODE_FEATURES, node_features(view, node, vectors).tolist(), strict=True))


def test_word_features_by_hand(make_view):
    view = make_view("Two moths. A moth with a brown tail. What kind of bird?", asked="a bird logo")
    found = features(view)
    assert found["cue"] == 1 and found["more_cues"] == 0 and found["cue_echo"] == 0
    assert found["cue_stems"] == 1.0  # "moth" whole; of "red wings" nothing
    assert found["text_share"] == 0.5  # moth of {red, moth}
    assert found["alternative_share"] == 0.5  # brown of {brown, owl}; bat not at all
    assert found["alternatives_met"] == 1
    assert found["alternative_exact"] == 0
    assert found["dimension_asked"] == 0.5  # kind of {kind, animal}, in the question
    assert found["dimension_share"] == 0.5
    assert found["asks"] == 1 and found["ask_share"] == pytest.approx(1 / 3)
    assert found["log_words"] == pytest.approx(np.log(13))
    assert found["list"] == 0 and found["svg"] == 0
    assert found["alternative_words"] == 1.5 and found["dimension_words"] == 3


def test_what_the_user_said_is_no_news(make_view):
    view = make_view("A moth, then.", asked="a moth please")
    found = features(view)
    assert (found["cue"], found["cue_echo"]) == (0, 1)
    assert found["text_share"] == 0  # only "red" would be new
    assert new_cues(view, NODE.cues) == ()


def test_clause_features_by_hand(make_view):
    view = make_view("It flies. Which one?", clauses=[[1, 0], [0.6, 0.8]])
    found = features(view)
    assert found["text_say"] == pytest.approx(1.0)
    assert found["text_ask"] == pytest.approx(0.6)
    assert found["dimension_say"] == pytest.approx(0.0)
    assert found["dimension_ask"] == pytest.approx(0.8)
    assert found["alternative_clause"] == pytest.approx(1.4 * R)  # second clause, first alternative
    assert found["alternative_margin"] == pytest.approx(1.4 * R - 0.6)
    assert found["cue_clause"] == pytest.approx(1.0)


def test_run_features_by_hand(make_view):
    view = make_view("It flies.", clauses=[[1, 0]], runs=[[0, -1], [1, 0]])
    found = features(view)
    assert found["alternative_run"] == pytest.approx(1.0)
    assert found["text_run"] == pytest.approx(1.0)
    assert found["dimension_run"] == pytest.approx(0.0)
    # values: text (1, 0) and alternatives; for run (1, 0) the two highest cosines are 1 and √½
    assert found["type_pair_run"] == pytest.approx((1 + R) / 2)
    centre = np.array([1 + R, R - 1]) / np.hypot(1 + R, R - 1)
    assert found["type_run"] == pytest.approx(max(-centre[1], centre[0]), abs=1e-6)
    assert found["alternative_spread"] == pytest.approx(-R)


def test_nothing_said_gives_zeros_but_for_the_nodes_own_features(make_view):
    bare = NodeQuestion("1", "A moth.", "animal")
    none = np.zeros((0, 2), np.float32)
    vectors = NodeVectors(VECTORS.text, VECTORS.dimension, none, none)
    found = features(make_view(""), bare, vectors)
    assert {name for name, value in found.items() if value} == {
        "alternative_words",
        "dimension_words",
    }


def test_alternatives_met_need_half_of_their_words_in_one_sentence(make_view):
    view = make_view("A brown fence. An owl sat there; a steam engine. A train.")
    assert alternatives_met(view, ("brown owl", "old steam train", "bat")) == ("brown owl",)


def test_node_vectors_split_back_into_nodes(encoder):
    bare = NodeQuestion("2", "It is dry.", "tone")
    first, second = node_vectors(encoder, [NODE, bare])
    assert first.alternatives.shape == (2, 384) and first.cues.shape == (2, 384)
    assert second.alternatives.shape == (0, 384) and second.cues.shape == (0, 384)
    np.testing.assert_allclose(second.text, encoder.vectors(["It is dry."])[0], atol=2e-6)
    assert node_vectors(encoder, []) == []


def test_every_feature_is_finite_on_odd_replies(encoder, ask):
    requests = [ask(text) for text in ("...", "?", "<svg><path d='M0", "ok", "a\n" * 300, "日本語")]
    for request, view in zip(requests, view_replies(encoder, requests), strict=True):
        for node, vectors in zip(request.nodes, node_vectors(encoder, request.nodes), strict=True):
            assert np.isfinite(node_features(view, node, vectors)).all()
        assert np.isfinite(kind_features(view, None, encoder)).all()


def test_kind_features_by_hand(encoder, ask):
    reply = "Thank you! It could be a ferry, a tram or a train. Is it Monday or Tuesday?"
    [view] = view_replies(encoder, [ask(reply)])
    found = dict(zip(KIND_FEATURES, kind_features(view, None, encoder).tolist(), strict=True))
    assert found["ask_share"] == pytest.approx(1 / 3)
    assert (found["first_asks"], found["last_asks"], found["questions"]) == (0, 1, 1)
    assert (found["options"], found["options_said"]) == (5, 3)
    assert found["choices"] == 1.0  # could, or, or in three sentences
    assert found["exclamations"] == pytest.approx(1 / 3)
    assert found["pleasantries"] == pytest.approx(1 / 3)
    assert found["you_share"] == pytest.approx(1 / 17)
    assert found["on_topic"] == 0
