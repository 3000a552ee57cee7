import numpy as np

from rl.judging.evidence import closest_option, evidence_sentence
from rl.judging.features import NodeVectors, node_vectors
from rl.judging.interface import Engagement, NodeQuestion

NODE = NodeQuestion("1", "A red moth.", "kind of animal", ("moth",), ("brown owl", "bat"))
VECTORS = NodeVectors(
    text=np.array([1, 0], np.float32),
    dimension=np.array([0, 1], np.float32),
    alternatives=np.array([[-1, 0], [0, -1]], np.float32),
    cues=np.array([[1, 0]], np.float32),
)


def test_a_cue_shows_a_direct_hit(make_view):
    view = make_view("It is night. A moth sits there.", clauses=[[1, 0], [0, -1]])
    assert evidence_sentence(view, NODE, VECTORS, Engagement.DIRECT) == "A moth sits there."


def test_without_a_cue_the_nearest_clause_does(make_view):
    view = make_view("It is night. What flies there?", clauses=[[-1, 0], [0.1, 0.99]])
    assert evidence_sentence(view, NODE, VECTORS, Engagement.DIRECT) == "What flies there?"


def test_a_listed_alternative_shows_a_tangential_hit(make_view):
    view = make_view("Which? A bat hangs there.", clauses=[[0, 1], [0.1, 0.1]])
    assert evidence_sentence(view, NODE, VECTORS, Engagement.TANGENTIAL) == "A bat hangs there."


def test_without_words_there_is_no_evidence(make_view):
    assert evidence_sentence(make_view("..."), NODE, VECTORS, Engagement.DIRECT) == ""


def test_closest_option(encoder):
    [vectors] = node_vectors(encoder, [NODE])
    engaged = [(NODE, vectors)]
    assert closest_option(encoder, ("a grey fox", "a moth", "a red butterfly"), engaged) == 1
    assert closest_option(encoder, ("a stone bridge", "a red butterfly"), engaged) == 1
    assert closest_option(encoder, (), engaged) is None
    assert closest_option(encoder, ("a moth",), []) is None
