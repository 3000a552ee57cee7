import random

import numpy as np
import pytest

from rl.judging.embedded import EmbeddedJudge, decide_labels
from rl.judging.features import NODE_FEATURES
from rl.judging.interface import (
    AbstainReason,
    Abstention,
    Engagement,
    Judgement,
    NodeQuestion,
    ReplyKind,
)
from rl.judging.linear import LinearClassifier
from rl.judging.weights_file import JudgeWeights, load_weights

QUESTION = "Gladly. Which kind of transport do you have in mind, and whose story is it going to be?"
FERRY = (
    "Here are two ways in.\n\n"
    "1. A river ferry, where the pilot works the crossing that his father worked before him.\n"
    "2. A steam train stuck in snow, while somebody tries to finish a letter.\n\n"
    "Does one of these tug at you?"
)
FUNICULAR_DRAFT = "The funicular climbed the hillside for the last time that evening."
CHAT = "That makes my day! Thank you so much, take all the time you need."


def test_a_question_about_the_dimension_is_direct(judge, ask):
    [verdict] = judge.judge([ask(QUESTION)])
    assert verdict.kind is ReplyKind.QUESTION
    assert verdict.label("1.1") is Engagement.DIRECT
    assert verdict.label("2") is Engagement.DIRECT
    assert verdict.nodes["1.1"].near_misses == 0
    assert "kind of transport" in verdict.nodes["1.1"].evidence


def test_listed_alternatives_are_near_misses_and_are_counted(judge, ask):
    [verdict] = judge.judge([ask(FERRY)])
    assert verdict.kind is ReplyKind.OPTIONS
    assert verdict.label("1.1") is Engagement.TANGENTIAL
    assert verdict.nodes["1.1"].near_misses == 2
    assert verdict.nodes["1.1"].evidence == FERRY.splitlines()[2].removeprefix("1. ")
    assert [option.split(",")[0] for option in verdict.options] == [
        "A river ferry",
        "A steam train stuck in snow",
    ]
    assert verdict.closest in (0, 1)


def test_a_draft_with_the_value_is_direct(judge, ask):
    [verdict] = judge.judge([ask(FUNICULAR_DRAFT)])
    assert verdict.kind is ReplyKind.DRAFT
    assert verdict.label("1.1") is Engagement.DIRECT
    assert verdict.label("2") is Engagement.NONE
    assert "2" not in verdict.nodes
    assert verdict.nodes["1.1"].evidence == FUNICULAR_DRAFT


def test_chitchat_engages_nothing(judge, ask):
    [verdict] = judge.judge([ask(CHAT)])
    assert verdict == Judgement("embedded", ReplyKind.CHITCHAT, {})


def test_the_option_with_the_cue_is_closest(judge, ask):
    [verdict] = judge.judge([ask("- a river ferry\n- a hillside funicular\n- a tram")])
    assert verdict.options[verdict.closest] == "a hillside funicular"


@pytest.mark.parametrize("reply", ["", " ", "\n\t "])
def test_an_empty_reply_gives_an_abstention(judge, ask, reply):
    verdicts = judge.judge([ask(reply), ask(CHAT), ask(reply)])
    assert verdicts[0] == verdicts[2] == Abstention("embedded", AbstainReason.EMPTY_REPLY)
    assert isinstance(verdicts[1], Judgement)


@pytest.mark.parametrize("reply", ["...", "?!", "<svg></svg>", "```"])
def test_a_reply_without_words_engages_nothing(judge, ask, reply):
    [verdict] = judge.judge([ask(reply)])
    assert dict(verdict.nodes) == {}


def test_no_requests_and_no_nodes(judge, ask):
    assert judge.judge([]) == []
    [verdict] = judge.judge([ask(QUESTION, nodes=())])
    assert dict(verdict.nodes) == {}
    assert verdict.closest is None


def test_a_verdict_depends_on_its_request_alone(judge, model_replies):
    requests = [item.request for item in model_replies[:12]]
    together = judge.judge(requests)
    order = list(range(len(requests)))
    random.Random(5).shuffle(order)
    fresh = EmbeddedJudge()  # nothing cached
    shuffled = fresh.judge([requests[index] for index in order])
    assert [shuffled[order.index(index)] for index in range(len(order))] == together
    assert [EmbeddedJudge(fresh.encoder).judge([request])[0] for request in requests] == together


def test_a_label_does_not_depend_on_the_other_nodes(judge, ask):
    [both] = judge.judge([ask(FERRY)])
    node = next(node for node in ask(FERRY).nodes if node.id == "1.1")
    [alone] = judge.judge([ask(FERRY, nodes=(node,))])
    assert alone.nodes["1.1"] == both.nodes["1.1"]


def test_two_judges_answer_alike(judge, ask):
    requests = [ask(reply) for reply in (QUESTION, FERRY, FUNICULAR_DRAFT, CHAT)]
    assert EmbeddedJudge().judge(requests) == judge.judge(requests)


def test_a_node_without_cues_and_alternatives_is_judged(judge, ask):
    bare = NodeQuestion("9", "It is set in winter.", "time of year")
    [verdict] = judge.judge([ask("Which time of year is it?", nodes=(bare,))])
    assert verdict.label("9") is Engagement.DIRECT


def _weights(intercepts: list[float], threshold: float) -> JudgeWeights:
    size = len(NODE_FEATURES)
    node = LinearClassifier(
        tuple(label.value for label in Engagement),
        tuple(NODE_FEATURES),
        np.zeros(size),
        np.ones(size),
        np.zeros((3, size)),
        np.log(intercepts),
    )
    return JudgeWeights(node, load_weights().kind, threshold, {})


@pytest.mark.parametrize(
    ("shares", "threshold", "label"),
    [
        ([0.2, 0.5, 0.3], 0.0, Engagement.DIRECT),
        ([0.2, 0.5, 0.3], 0.6, Engagement.TANGENTIAL),
        ([0.3, 0.5, 0.2], 0.6, Engagement.NONE),
        ([0.2, 0.7, 0.1], 0.6, Engagement.DIRECT),
    ],
)
def test_direct_needs_its_threshold(shares, threshold, label):
    assert list(Engagement) == [Engagement.NONE, Engagement.DIRECT, Engagement.TANGENTIAL]
    rows = np.zeros((1, len(NODE_FEATURES)))
    assert decide_labels(_weights(shares, threshold), rows) == [label]
