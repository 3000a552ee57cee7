from dataclasses import replace

import pytest

from rl.judging.cache import CachedJudge, content_hash
from rl.judging.interface import (
    AbstainReason,
    Abstention,
    Judgement,
    JudgeRequest,
    NodeQuestion,
    ReplyKind,
)

NODE = NodeQuestion("1", "text", "dimension", ("cue",), ("alternative",))


class Recorder:
    """Answers with the reply's text as the judge's name, and remembers what it was asked."""

    name = "recorder"

    def __init__(self, reason: AbstainReason | None = None) -> None:
        self.asked: list[str] = []
        self.reason = reason

    def judge(self, requests):
        self.asked += [request.reply for request in requests]
        if self.reason:
            return [Abstention(self.name, self.reason) for _ in requests]
        return [Judgement(request.reply, ReplyKind.DRAFT, {}) for request in requests]


def request(reply):
    return JudgeRequest((("user", "hello"),), reply, (NODE,))


def test_known_requests_are_not_asked_again():
    inner = Recorder()
    judge = CachedJudge(inner)
    first = judge.judge([request("a"), request("b"), request("a")])
    again = judge.judge([request("b"), request("c"), request("a")])
    assert [verdict.judge for verdict in first] == ["a", "b", "a"]
    assert [verdict.judge for verdict in again] == ["b", "c", "a"]
    assert inner.asked == ["a", "b", "c"]
    assert (judge.hits, judge.misses) == (3, 3)
    assert judge.name == "recorder"


@pytest.mark.parametrize("reason", list(AbstainReason))
def test_only_abstentions_that_must_recur_are_kept(reason):
    inner = Recorder(reason)
    judge = CachedJudge(inner)
    judge.judge([request("a")])
    judge.judge([request("a")])
    assert len(inner.asked) == (1 if reason is AbstainReason.EMPTY_REPLY else 2)


def test_the_least_recently_used_goes_first():
    inner = Recorder()
    judge = CachedJudge(inner, size=2)
    for reply in ("a", "b", "a", "c", "a", "b"):
        judge.judge([request(reply)])
    assert inner.asked == ["a", "b", "c", "b"]


def test_size_zero_keeps_nothing_but_still_asks_once_a_batch():
    inner = Recorder()
    judge = CachedJudge(inner, size=0)
    judge.judge([request("a"), request("a")])
    judge.judge([request("a")])
    assert inner.asked == ["a", "a"]


def test_negative_size_is_refused():
    with pytest.raises(ValueError, match="at least 0"):
        CachedJudge(Recorder(), size=-1)


def test_an_answer_short_of_a_verdict_is_an_error():
    class Short(Recorder):
        def judge(self, requests):
            return super().judge(requests)[1:]

    with pytest.raises(ValueError, match="shorter"):
        CachedJudge(Short()).judge([request("a"), request("b")])


@pytest.mark.parametrize(
    "other",
    [
        request("b"),
        replace(request("a"), history=()),
        replace(request("a"), history=(("assistant", "hello"),)),
        replace(request("a"), nodes=()),
        replace(request("a"), nodes=(replace(NODE, cues=("cue", "alternative"), alternatives=()),)),
        replace(request("a"), nodes=(replace(NODE, text="other"),)),
    ],
)
def test_the_hash_covers_all_content(other):
    assert content_hash(request("a")) != content_hash(other)
    assert content_hash(request("a")) == content_hash(request("a"))
