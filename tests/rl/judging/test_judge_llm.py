"""The language-model judge against a server of recorded answers (real HTTP on loopback)."""

import json
from typing import Any

import pytest

from rl.config.schema import JudgeConfig
from rl.judging.backends import make_judge
from rl.judging.interface import (
    AbstainReason,
    Abstention,
    Engagement,
    Judgement,
    JudgeRequest,
    NodeJudgement,
    NodeQuestion,
    ReplyKind,
)
from rl.judging.llm_prompt import judge_messages, judge_schema, read_judgement
from rl.llm.client import OutOfSchemaError
from tests.llm_server import answer, serve

NODES = (
    NodeQuestion("1", "It is a tram.", "kind of transport", ("tram",), ("bus", "ferry")),
    NodeQuestion("2", "It is sad.", "mood", ("sad",), ("merry",)),
)
REQUEST = JudgeRequest((("user", "a story"),), "On a bus or a ferry? They wept.", NODES)


def wish(label: str, near_misses: int = 0, evidence: str = "") -> dict[str, Any]:
    return {"label": label, "near_misses": near_misses, "evidence": evidence}


def content(**changes: Any) -> str:
    whole = {
        "kind": "options",
        "wishes": {"1": wish("tangential", 2, "a bus or a ferry"), "2": wish("direct", 3, "sad")},
        "options": ["a bus", "a train", "a ferry"],
        "closest": 2,
    }
    return json.dumps(whole | changes)


def make(url: str, **changes: Any) -> Any:
    settings = {"retries": 0, "cache_entries": 0, "deadline_s": 20.0} | changes
    return make_judge(JudgeConfig(backend="llm", endpoint=url, **settings))


def test_an_answer_becomes_a_judgement_and_nothing_is_put_into_the_reply() -> None:
    """ "sad" and "a train" do not stand in the reply; the third option becomes the second."""
    with serve((200, answer(content()))) as server:
        [verdict] = make(server.url).judge([REQUEST])
    assert isinstance(verdict, Judgement)
    assert verdict.kind is ReplyKind.OPTIONS
    assert verdict.nodes == {
        "1": NodeJudgement(Engagement.TANGENTIAL, 2, "a bus or a ferry"),
        "2": NodeJudgement(Engagement.DIRECT, 0, ""),
    }
    assert verdict.options == ("a bus", "a ferry")
    assert verdict.closest == 1
    [asked] = server.asked
    assert asked["model"] == "recorded"
    assert asked["temperature"] == 0
    assert asked["response_format"]["json_schema"]["schema"] == judge_schema(REQUEST)
    text = asked["messages"][1]["content"]
    assert "On a bus or a ferry?" in text
    assert "kind of transport; other values: bus, ferry" in text


def test_an_answer_out_of_schema_is_asked_for_once_more_with_the_reason() -> None:
    with serve((200, answer('{"kind": "poem"}')), (200, answer(content()))) as server:
        [verdict] = make(server.url).judge([REQUEST])
        assert isinstance(verdict, Judgement)
        first, second = server.asked
        assert [m["role"] for m in second["messages"]] == ["system", "user", "assistant", "user"]
        assert "cannot be used" in second["messages"][-1]["content"]
        assert first["seed"] != second["seed"]
    with serve((200, answer("Sure! Here it is"))) as server:
        [verdict] = make(server.url).judge([REQUEST])
        assert len(server.asked) == 2
    assert verdict == Abstention(verdict.judge, AbstainReason.OUT_OF_SCHEMA)


@pytest.mark.parametrize(
    ("script", "retries", "asked", "reason"),
    [
        ([(500, b"{}")], 1, 2, AbstainReason.BACKEND_ERROR),
        ([(429, b"{}")], 1, 2, AbstainReason.BACKEND_ERROR),
        ([(429, b"{}"), (200, answer(content()))], 1, 2, None),
        ([(400, b'{"error": "no"}')], 3, 1, AbstainReason.BACKEND_ERROR),
        ([(200, b"<html>")], 0, 1, AbstainReason.BACKEND_ERROR),
        ([(200, b'{"choices": []}')], 0, 1, AbstainReason.BACKEND_ERROR),
    ],
)
def test_an_endpoint_that_fails_is_abstained_from(
    script: list[tuple[int, bytes]], retries: int, asked: int, reason: AbstainReason | None
) -> None:
    with serve(*script) as server:
        [verdict] = make(server.url, retries=retries).judge([REQUEST])
        assert len(server.asked) == asked
    if reason is None:
        assert isinstance(verdict, Judgement)
    else:
        assert isinstance(verdict, Abstention)
        assert verdict.reason is reason
        assert server.url in verdict.detail


def test_an_endpoint_that_never_answers_meets_the_deadline() -> None:
    with serve((0, b"")) as server:
        [verdict] = make(server.url, deadline_s=0.5).judge([REQUEST])
    assert verdict == Abstention(verdict.judge, AbstainReason.DEADLINE)


def test_an_endpoint_that_is_not_there() -> None:
    with serve((0, b"")) as server:
        url = server.url
    [verdict] = make(url).judge([REQUEST])
    assert isinstance(verdict, Abstention)
    assert verdict.reason is AbstainReason.BACKEND_ERROR


def test_many_are_asked_at_once_up_to_the_bound_in_order_and_cached() -> None:
    def echo(body: dict[str, Any]) -> tuple[int, bytes]:
        kind = "question" if "ask 1" in body["messages"][1]["content"] else "draft"
        return 200, answer(content(kind=kind))

    asked = [JudgeRequest((("user", "a"),), f"ask {i % 2}: {i}", NODES) for i in range(12)]
    with serve(echo) as server:
        judge = make(server.url, concurrency=3, cache_entries=100)
        verdicts = judge.judge(asked)
        assert judge.judge(asked) == verdicts
        assert len(server.asked) == 12
        assert 1 < server.most_at_once <= 3
    kinds = [v.kind.value if isinstance(v, Judgement) else "" for v in verdicts]
    assert kinds == ["draft", "question"] * 6


def test_an_empty_reply_is_not_asked_about() -> None:
    with serve((500, b"")) as server:
        [verdict] = make(server.url).judge([JudgeRequest((), " \n", NODES)])
        assert server.asked == []
    assert verdict == Abstention(verdict.judge, AbstainReason.EMPTY_REPLY)


@pytest.mark.parametrize(
    "change",
    [
        {"wishes": {"1": wish("none")}},
        {"wishes": {"1": wish("none"), "2": wish("maybe")}},
        {"closest": "first"},
        {"extra": 1},
    ],
)
def test_what_is_not_an_answer(change: dict[str, Any]) -> None:
    with pytest.raises(OutOfSchemaError):
        read_judgement("j", REQUEST, content(**change))


def test_a_tangential_hit_has_at_least_one_near_miss_and_others_none() -> None:
    text = content(wishes={"1": wish("tangential", 0), "2": wish("none", 4)}, closest=None)
    judgement = read_judgement("j", REQUEST, text)
    assert judgement.nodes == {"1": NodeJudgement(Engagement.TANGENTIAL, 1, "")}
    assert judgement.closest is None


def test_a_request_without_nodes_asks_for_the_kind_only() -> None:
    bare = JudgeRequest((("user", "a"),), "Hello.", ())
    assert judge_schema(bare)["properties"]["wishes"]["required"] == []
    assert "(none)" in judge_messages(bare)[1][1]
    assert read_judgement("j", bare, content(wishes={}, options=[], closest=None)).nodes == {}


def test_half_an_emoji_in_an_answer_is_text_all_the_same() -> None:
    broken = content().replace("a train", "a train \\ud83d")
    with serve((200, answer(broken).replace(b"\\\\ud83d", b"\\ud83d"))) as server:
        [verdict] = make(server.url).judge([REQUEST])
    assert isinstance(verdict, Judgement)
    assert verdict.options == ("a bus", "a ferry")
