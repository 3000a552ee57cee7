import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.discovery.tree import Awareness, TreeState
from rl.episode.jsonl import (
    RowError,
    append_episode,
    append_row,
    read_episodes,
    read_rows,
    truncate_rows,
)
from rl.episode.outcome import EpisodeEnd, FinishReason
from rl.episode.records import Candidate, Episode, EpisodeId, Group, Turn
from rl.episode.tokens import Span, TokenTree
from rl.judging.interface import (
    AbstainReason,
    Abstention,
    Engagement,
    Judgement,
    NodeJudgement,
    ReplyKind,
)

numbers = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(max_size=6)
counts = st.integers(0, 2**40)
figures = st.dictionaries(names, numbers, max_size=3)
judgements = st.builds(
    Judgement,
    names,
    st.sampled_from(ReplyKind),
    st.dictionaries(
        names, st.builds(NodeJudgement, st.sampled_from(Engagement), counts, names), max_size=3
    ),
    st.lists(names, max_size=3).map(tuple),
    st.none() | counts,
)
verdicts = (
    st.none() | judgements | st.builds(Abstention, names, st.sampled_from(AbstainReason), names)
)
candidates = st.builds(
    Candidate,
    counts,
    names,
    counts,
    st.sampled_from(FinishReason),
    names,
    st.none() | numbers,
    figures,
    st.none() | st.booleans(),
    verdicts,
)
groups = st.builds(Group, names, counts, st.lists(candidates, max_size=3).map(tuple), counts)
states = st.builds(
    TreeState,
    st.dictionaries(names, st.sampled_from(Awareness), max_size=3),
    st.frozensets(names, max_size=3),
    st.none() | figures,
)
turns = st.builds(
    Turn,
    counts,
    names,
    names,
    st.none() | states,
    st.none() | names,
    st.none() | st.sampled_from(FinishReason),
    st.none() | names,
)
trees = st.builds(
    lambda logprobs, reward: TokenTree(
        (
            Span(0, None, (1, 2)),
            Span(1, 0, tuple(range(len(logprobs))), True, tuple(logprobs), "assistant@0.1", reward),
        )
    ),
    st.lists(numbers, max_size=4),
    st.none() | numbers,
)
episodes = st.builds(
    Episode,
    st.builds(EpisodeId, counts, names, counts),
    names,
    names,
    st.sampled_from(EpisodeEnd),
    trees,
    st.lists(groups, max_size=2).map(tuple),
    st.lists(turns, max_size=2).map(tuple),
    figures,
    st.dictionaries(names, counts, max_size=3),
    names,
)


def simple(order, **changes):
    tree = TokenTree((Span(0, None, (1,)), Span(1, 0, (2,), True, (-0.1,), "assistant@0.0")))
    made = Episode(EpisodeId(0, f"t{order}", order), "assistant", "svg", EpisodeEnd.DEADLINE, tree)
    return replace(made, **changes)


@settings(max_examples=60)
@given(st.lists(episodes, min_size=1, max_size=3))
def test_episodes_come_back_exactly(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("rows") / "episodes.jsonl"
    for episode in written:
        append_episode(path, episode)
    read = list(read_episodes(path))
    assert read == written
    for before, after in zip(written, read, strict=True):
        assert type(after) is Episode
        # equality takes -0.0 for 0.0; the text of a float tells every value apart
        assert [repr(s.logprobs) for s in after.tokens.spans] == [
            repr(s.logprobs) for s in before.tokens.spans
        ]
        for left, right in zip(before.groups, after.groups, strict=True):
            verdicts_read = [c.verdict for c in right.candidates]
            for a, b in zip((c.verdict for c in left.candidates), verdicts_read, strict=True):
                assert type(a) is type(b)
                if isinstance(a, Abstention):
                    assert a.detail == b.detail  # not part of an abstention's equality


def test_one_line_of_plain_json_an_episode(tmp_path):
    path = tmp_path / "episodes.jsonl"
    append_episode(path, simple(0, detail="two\nlines"))
    append_episode(path, simple(1))
    lines = path.read_text().splitlines()
    assert [json.loads(line)["id"]["order"] for line in lines] == [0, 1]
    assert json.loads(lines[0])["tokens"]["spans"][1]["logprobs"] == [-0.1]


def test_the_same_episode_gives_the_same_bytes(tmp_path):
    forwards = frozenset(["a", "b", "c", "d"])
    backwards = frozenset(sorted(forwards, reverse=True))
    for name, satisfied in (("one", forwards), ("two", backwards)):
        turn = Turn(0, "user", "hi", TreeState({}, satisfied))
        append_episode(tmp_path / name, simple(0, turns=(turn,)))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    state = json.loads((tmp_path / "one").read_text())["turns"][0]["state"]
    assert state["satisfied"] == ["a", "b", "c", "d"]


@given(st.dictionaries(names, st.none() | numbers | counts | names | figures, max_size=5))
def test_metrics_come_back_exactly(tmp_path_factory, row):
    path = tmp_path_factory.mktemp("rows") / "metrics.jsonl"
    append_row(path, row)
    assert list(read_rows(path)) == [row]


def test_metrics_keep_the_order_of_their_keys(tmp_path):
    append_row(tmp_path / "m", {"step": 1, "loss": None, "a": 0.5})
    assert (tmp_path / "m").read_text() == '{"step":1,"loss":null,"a":0.5}\n'


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_pitfall_16_a_number_that_json_cannot_hold_is_refused_and_nothing_is_written(tmp_path, bad):
    path = tmp_path / "rows"
    append_row(path, {"step": 0})
    before = path.read_bytes()
    with pytest.raises(RowError, match="row: lag: mean is"):
        append_row(path, {"lag": {"mean": bad}})
    tree = TokenTree((Span(0, None, (2,), True, (bad,), "v"),))
    with pytest.raises(RowError, match=r"episode 0:t3: tokens: spans\[0\]: logprobs\[0\] is"):
        append_episode(path, simple(3, tokens=tree))
    assert path.read_bytes() == before


def test_truncating_drops_later_rows_and_the_torn_line(tmp_path):
    path = tmp_path / "episodes.jsonl"
    for order in range(4):
        append_episode(path, simple(order))
    kept = b"".join(path.read_bytes().splitlines(keepends=True)[:2])
    with path.open("ab") as file:
        file.write(b'{"id":{"epoch":0,"task":"t9"')
    assert truncate_rows(path, lambda row: row["id"]["order"] < 2) == 3
    assert path.read_bytes() == kept
    append_episode(path, simple(2))
    assert [episode.id.order for episode in read_episodes(path)] == [0, 1, 2]


@given(st.integers(0, 200))
def test_a_file_cut_anywhere_keeps_its_whole_rows(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("rows") / "metrics.jsonl"
    for step in range(8):
        append_row(path, {"step": step, "loss": 0.1 * step})
    whole = path.read_bytes()[:cut].count(b"\n")
    path.write_bytes(path.read_bytes()[:cut])
    assert len(list(read_rows(path))) == whole
    truncate_rows(path, lambda row: True)
    assert [row["step"] for row in read_rows(path)] == list(range(whole))
    append_row(path, {"step": "next"})
    assert len(list(read_rows(path))) == whole + 1


def test_appending_to_a_torn_line_is_refused(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step":0}\n{"st')
    with pytest.raises(RowError, match=r"metrics\.jsonl: the last line is torn"):
        append_row(path, {"step": 1})
    assert path.read_bytes() == b'{"step":0}\n{"st'


def test_a_crash_while_truncating_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    for step in range(3):
        append_row(path, {"step": step})
    before = path.read_bytes()

    def power_cut(self, target):
        raise OSError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", power_cut)
        with pytest.raises(OSError, match="power cut"):
            truncate_rows(path, lambda row: row["step"] < 1)
    assert path.read_bytes() == before
    assert truncate_rows(path, lambda row: row["step"] < 1) == 2  # what was left over is no bar
    assert [row["step"] for row in read_rows(path)] == [0]
    assert [p.name for p in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_missing_file_has_nothing_to_drop(tmp_path):
    assert truncate_rows(tmp_path / "none.jsonl", lambda row: False) == 0
    assert not (tmp_path / "none.jsonl").exists()


def test_a_bad_line_is_named_with_file_and_line(tmp_path):
    path = tmp_path / "episodes.jsonl"
    append_episode(path, simple(0))
    with path.open("ab") as file:
        file.write(b'{"id": 3}\n')
    with pytest.raises(RowError, match=r"episodes\.jsonl, line 2: not an episode: .*id"):
        list(read_episodes(path))
    path.write_bytes(b"[1]\n")
    with pytest.raises(RowError, match="line 1: not a JSON object"):
        list(read_rows(path))


def test_what_is_no_row_of_the_file_is_named_and_the_file_left(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"step": 1}\n{"other": 2}\n')
    with pytest.raises(RowError, match=r"rows\.jsonl, line 2: not a row of this file: KeyError"):
        truncate_rows(path, lambda row: row["step"] < 5)
    assert path.read_text() == '{"step": 1}\n{"other": 2}\n'
    with pytest.raises(RowError, match="is no file"):
        truncate_rows(tmp_path, lambda row: True)


def test_truncating_keeps_a_link_and_what_needs_no_change(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n')
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    before = path.stat().st_ino
    assert truncate_rows(link, lambda row: True) == 0
    assert path.stat().st_ino == before
    assert truncate_rows(link, lambda row: row["step"] < 2) == 1
    assert link.is_symlink()
    assert path.read_text() == '{"step": 1}\n'


@pytest.mark.parametrize("verdict", ["{}", '{"judgement":null,"abstention":null}'])
def test_a_verdict_that_is_none_is_no_episode(tmp_path, verdict):
    path = tmp_path / "episodes.jsonl"
    candidate = Candidate(
        1, "a", 1, FinishReason.STOP, "v", verdict=Abstention("j", AbstainReason.DEADLINE)
    )
    append_episode(path, simple(0, groups=(Group("t", 0, (candidate,), 0),)))
    text = path.read_text()
    row = json.loads(text)
    row["groups"][0]["candidates"][0]["verdict"] = json.loads(verdict)
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(RowError, match="line 1: not an episode: a verdict is"):
        list(read_episodes(path))
