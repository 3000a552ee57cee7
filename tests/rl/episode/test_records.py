"""An episode that becomes a failure afterwards keeps what was played, and is not trained."""

from dataclasses import replace

import pytest

from rl.config.schema import GrpoConfig
from rl.episode.jsonl import append_episode, read_episodes
from rl.episode.outcome import EpisodeEnd, FinishReason
from rl.episode.records import Candidate, Episode, EpisodeId, Group, Turn, as_failed
from rl.episode.tokens import Span, TokenTree
from rl.grpo.batch import build_training_batch

VERSION = "assistant@0.1"


def played():
    spans = [Span(0, None, (1, 2))]
    candidates = []
    for index, reward in enumerate((1.0, 0.0)):
        spans.append(Span(index + 1, 0, (3, 4), True, (-0.5, -0.25), VERSION, reward))
        candidates.append(Candidate(index + 1, "x", 2, FinishReason.STOP, VERSION, reward))
    return Episode(
        EpisodeId(1, "poem", 3),
        "assistant",
        "svg",
        EpisodeEnd.TURN_LIMIT,
        TokenTree(tuple(spans)),
        (Group("1:poem/0", 0, tuple(candidates), 0),),
        (Turn(0, "user", "hi"), Turn(1, "assistant", "x", None, VERSION, FinishReason.STOP)),
        {"discover": 50.0},
        {"finish_stop": 2},
    )


@pytest.mark.parametrize("end", [end for end in EpisodeEnd if end.is_failure])
def test_only_the_end_and_its_detail_change(end, tmp_path):
    whole = played()
    assert len(build_training_batch([whole], GrpoConfig()).samples) == 2
    failed = as_failed(whole, end, "why")
    assert (failed.end, failed.detail) == (end, "why")
    assert replace(failed, end=whole.end, detail=whole.detail) == whole
    batch = build_training_batch([failed], GrpoConfig())
    assert batch.samples == ()
    assert (batch.diagnostics.episodes_failed, batch.diagnostics.generated_tokens) == (1, 4)
    append_episode(tmp_path / "episodes.jsonl", failed)
    assert list(read_episodes(tmp_path / "episodes.jsonl")) == [failed]


@pytest.mark.parametrize("end", [end for end in EpisodeEnd if not end.is_failure])
def test_a_normal_end_is_no_failure(end):
    with pytest.raises(ValueError, match=f"{end} is no failure"):
        as_failed(played(), end, "")
