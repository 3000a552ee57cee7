"""The judge that a configuration names, and its cache."""

import sys
from types import ModuleType

import pytest

import rl.judging.backends as backends
from rl.config.schema import JudgeConfig
from rl.judging.backends import make_judge
from rl.judging.interface import Judgement, JudgeRequest, ReplyKind


class CountingJudge:
    """Stands for a judge: keeps what it was asked."""

    name = "counting"

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def judge(self, asked):
        self.batches.append([request.reply for request in asked])
        return [Judgement(self.name, ReplyKind.CHITCHAT, {}) for _ in asked]


def requests(*replies):
    return [JudgeRequest((("user", "hi"),), reply, ()) for reply in replies]


@pytest.mark.parametrize(("entries", "asked"), [(10, [["a"], ["b"]]), (0, [["a"], ["a", "b"]])])
def test_the_cache_holds_as_many_entries_as_configured(monkeypatch, entries, asked):
    inner = CountingJudge()
    monkeypatch.setattr(backends, "_backend", lambda config: inner)
    made = make_judge(JudgeConfig(cache_entries=entries))
    assert len(made.judge(requests("a"))) == 1
    assert len(made.judge(requests("a", "b"))) == 2
    assert inner.batches == asked


def test_the_configured_backend_is_made(monkeypatch):
    embedded = ModuleType("rl.judging.embedded")
    embedded.EmbeddedJudge = CountingJudge  # the real one loads an encoder
    monkeypatch.setitem(sys.modules, "rl.judging.embedded", embedded)
    assert make_judge(JudgeConfig(backend="embedded")).name == "counting"
    assert make_judge(JudgeConfig(backend="cues")).name == "cues"
