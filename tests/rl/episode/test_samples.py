import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.episode.samples import flat_sample, flat_samples
from rl.episode.tokens import TokenTreeBuilder


@st.composite
def token_trees(draw):
    """Any tree: sampled and given spans in any order, with side branches, some of them empty."""
    builder = TokenTreeBuilder()
    for index in range(draw(st.integers(0, 12))):
        parent = draw(st.none() | st.integers(0, index - 1)) if index else None
        ids = tuple(draw(st.lists(st.integers(0, 99), max_size=4)))
        if draw(st.booleans()):
            logprobs = tuple(-0.125 * (1 + i) - index for i in range(len(ids)))
            builder.add_sampled(parent, ids, logprobs, f"assistant@0.{index}")
        else:
            builder.add(parent, ids)
    return builder.build()


def origins(tree, span):
    """Where each token of a flat sample comes from, walked upwards: (span, offset), root first."""
    places = []
    at = span
    while at is not None:
        node = tree.spans[at]
        places = [(at, offset) for offset in range(len(node.ids))] + places
        at = node.parent
    return places


@given(token_trees())
def test_pitfall_10_every_sampled_token_is_trained_exactly_once_and_no_other_is(tree):
    trained = []
    for sample in flat_samples(tree):
        places = origins(tree, sample.span)
        assert len(sample.ids) == len(sample.mask) == len(sample.logprobs) == len(places)
        for (span, offset), token, mask, logprob in zip(
            places, sample.ids, sample.mask, sample.logprobs, strict=True
        ):
            assert token == tree.spans[span].ids[offset]
            if mask:
                assert logprob == tree.spans[span].logprobs[offset]
                trained.append((span, offset))
            else:
                assert logprob == 0.0
    sampled = [(s.id, i) for s in tree.spans if s.sampled for i in range(len(s.ids))]
    assert sorted(trained) == sampled


@given(token_trees())
def test_pitfall_14_no_sample_is_without_trained_tokens(tree):
    assert all(sum(sample.mask) > 0 for sample in flat_samples(tree))


def dialogue():
    """A trunk with two candidates, the first of them committed, and one reply after it."""
    builder = TokenTreeBuilder()
    opening = builder.add(None, (1, 2))
    committed = builder.add_sampled(opening, (3, 4), (-0.5, -0.25), "assistant@0.7")
    builder.add_sampled(opening, (5,), (-1.5,), "assistant@0.7")
    user = builder.add(committed, (6,))
    builder.add_sampled(user, (7,), (-2.0,), "assistant@0.8")
    return builder.build()


def test_a_committed_candidate_is_prefix_to_what_follows():
    first, other, last = flat_samples(dialogue())
    assert (first.ids, first.mask) == ((1, 2, 3, 4), (0, 0, 1, 1))
    assert (other.ids, other.mask) == ((1, 2, 5), (0, 0, 1))
    assert (last.ids, last.mask) == ((1, 2, 3, 4, 6, 7), (0, 0, 0, 0, 0, 1))
    assert last.logprobs == (0.0, 0.0, 0.0, 0.0, 0.0, -2.0)
    assert (first.version, last.version) == ("assistant@0.7", "assistant@0.8")


def test_a_span_that_was_not_sampled_is_no_sample():
    with pytest.raises(ValueError, match="span 0 was not sampled"):
        flat_sample(dialogue(), 0)
