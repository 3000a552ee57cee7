"""Token trees: paths, prefixes and masks against a plain model of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.episode.outcome import EpisodeEnd, FinishReason
from rl.episode.records import Candidate, Episode, EpisodeId
from rl.episode.samples import flat_samples
from rl.episode.tokens import Span, TokenTree, TokenTreeBuilder


@st.composite
def grown(draw):
    """Return a builder, and its spans as plain (parent, ids, sampled) triples."""
    builder, plain = TokenTreeBuilder(), []
    for index in range(draw(st.integers(1, 12))):
        parent = draw(st.none() | st.integers(0, index - 1)) if index else None
        ids = tuple(draw(st.lists(st.integers(0, 99), max_size=4)))
        sampled = draw(st.booleans())
        if sampled:
            span = builder.add_sampled(parent, ids, (-0.5,) * len(ids), f"assistant@0.{index}")
        else:
            span = builder.add(parent, ids)
        assert span == index
        plain.append((parent, ids, sampled))
    return builder, plain


def plain_prefix(plain, span):
    return () if span is None else plain_prefix(plain, plain[span][0]) + plain[span][1]


@given(grown())
def test_prefixes_are_the_ids_from_the_root(made):
    builder, plain = made
    tree = builder.build()
    for span in range(len(plain)):
        assert tree.prefix_ids(span) == builder.prefix_ids(span) == plain_prefix(plain, span)
        path = [part.id for part in tree.path(span)]
        assert path[-1] == span
        assert [plain[child][0] for child in path] == [None, *path[:-1]]
    assert tree.prefix_ids(None) == ()


@given(grown())
def test_pitfall_10_the_mask_is_1_on_sampled_tokens_only(made):
    builder, plain = made
    tree = builder.build()
    assert [span.mask for span in tree.spans] == [
        (int(sampled),) * len(ids) for _, ids, sampled in plain
    ]
    assert [span.id for span in tree.sampled()] == [i for i, s in enumerate(plain) if s[2]]
    trained = sum(len(ids) for _, ids, sampled in plain if sampled)
    assert sum(sum(sample.mask) for sample in flat_samples(tree)) == trained


@given(grown(), st.dictionaries(st.integers(0, 11), st.floats(-1, 1)))
def test_rewards_are_set_where_given_and_nowhere_else(made, rewards):
    builder, plain = made
    tree = builder.build(rewards)
    assert [span.reward for span in tree.spans] == [rewards.get(i) for i in range(len(plain))]
    unrewarded = builder.build()
    assert {span.reward for span in unrewarded.spans} == {None}


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ({"ids": (1, 2), "sampled": True, "logprobs": (-1.0,), "version": "v"}, "2 sampled ids"),
        ({"ids": (1,), "sampled": True, "logprobs": (-1.0,)}, "needs the version"),
        ({"ids": (1,), "logprobs": (-1.0,)}, "was not sampled"),
        ({"ids": (), "parent": 3}, "parent 3 must come before it"),
        ({"ids": (), "parent": 4}, "parent 4 must come before it"),
        ({"ids": (), "parent": -1}, "parent -1 must come before it"),
    ],
)
def test_impossible_spans(span, message):
    with pytest.raises(ValueError, match=rf"span 3: .*{message}"):
        Span(**({"id": 3, "parent": 0} | span))


def test_a_span_stands_at_its_own_index():
    with pytest.raises(ValueError, match="span 1 stands at index 0"):
        TokenTree((Span(1, None, ()),))


def test_versions_of_an_episode_in_order_of_first_use():
    spans = (
        Span(0, None, (1,)),
        Span(1, 0, (2,), True, (-0.1,), "assistant@0.4"),
        Span(2, 0, (3,), True, (-0.1,), "assistant@0.2"),
        Span(3, 1, (4,), True, (-0.1,), "assistant@0.4"),
    )
    episode = Episode(EpisodeId(2, "t", 9), "a", "d", EpisodeEnd.TURN_LIMIT, TokenTree(spans))
    assert episode.versions == ("assistant@0.4", "assistant@0.2")
    assert str(episode.id) == "2:t"


@pytest.mark.parametrize(
    ("reward", "tokens", "usable"), [(0.0, 3, True), (None, 3, False), (1.0, 0, False)]
)
def test_pitfall_14_usable_candidates_have_a_reward_and_tokens(reward, tokens, usable):
    made = Candidate(1, "x", tokens, FinishReason.STOP, "assistant@0.0", reward)
    assert made.usable is usable


@pytest.mark.parametrize("end", EpisodeEnd)
def test_ends_with_something_to_train_on_are_no_failures(end):
    good = {"turn_limit", "all_satisfied", "context_full"}
    assert end.is_failure is (end not in good)
