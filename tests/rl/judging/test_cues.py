"""The cue judge, by hand."""

import pytest

from rl.judging.cues import CueJudge
from rl.judging.interface import (
    AbstainReason,
    Abstention,
    Engagement,
    Judgement,
    JudgeRequest,
    NodeQuestion,
    ReplyKind,
)

NODES = (
    NodeQuestion("1", "A cat.", "which animal", ("cat", "old mr."), ("dog", "hamster")),
    NodeQuestion("2", "It rains.", "weather", ("rain",), ()),
)


@pytest.mark.parametrize(
    ("reply", "kind", "labels"),
    [
        ("A Cat sleeps.", ReplyKind.DRAFT, {"1": (Engagement.DIRECT, 0)}),
        ("A dog or a hamster?", ReplyKind.QUESTION, {"1": (Engagement.TANGENTIAL, 2)}),
        ("cat and dog", ReplyKind.DRAFT, {"1": (Engagement.DIRECT, 0)}),
        (
            "Old Mr. Smith in the rain",
            ReplyKind.DRAFT,
            {"1": (Engagement.DIRECT, 0), "2": (Engagement.DIRECT, 0)},
        ),
        ("concatenate the train", ReplyKind.DRAFT, {}),
    ],
)
def test_cues_are_direct_and_alternatives_tangential(reply, kind, labels) -> None:
    (verdict,) = CueJudge().judge([JudgeRequest((), reply, NODES)])
    assert isinstance(verdict, Judgement)
    assert verdict.kind is kind
    assert {k: (v.label, v.near_misses) for k, v in verdict.nodes.items()} == labels


def test_an_empty_reply_is_abstained_from() -> None:
    (verdict,) = CueJudge().judge([JudgeRequest((), "  \n", NODES)])
    assert verdict == Abstention("cues", AbstainReason.EMPTY_REPLY)
