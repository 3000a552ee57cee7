import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.grpo.batch import TrainingSample
from rl.grpo.partition import pack_micro_batches, split_over_ranks


def samples_of(lengths):
    return [
        TrainingSample((1,) * n, (1,) * n, (0.0,) * n, 0.0, 0.0, "e", "g", i, "v")
        for i, n in enumerate(lengths)
    ]


lengths = st.lists(st.integers(1, 60), max_size=30)


@given(lengths, st.integers(1, 200))
def test_pitfall_17_every_sample_is_in_exactly_one_micro_batch_within_the_limit(sizes, limit):
    packed = pack_micro_batches(samples_of(sizes), limit)
    assert sorted(i for batch in packed for i in batch) == list(range(len(sizes)))
    for batch in packed:
        longest = max(sizes[i] for i in batch)
        assert len(batch) * longest <= limit or len(batch) == 1


def test_packing_by_hand():
    # by length: 5 (index 1), 4 (3), 4 (4), 2 (0), 1 (2); at most 10 padded tokens
    assert pack_micro_batches(samples_of([2, 5, 1, 4, 4]), 10) == [[1, 3], [4, 0], [2]]


def test_a_sample_over_the_limit_stands_alone():
    assert pack_micro_batches(samples_of([50, 3, 3]), 6) == [[0], [1, 2]]


@given(lengths, st.integers(1, 5))
def test_ranks_share_all_samples_in_balance(sizes, world_size):
    split = split_over_ranks(samples_of(sizes), world_size)
    assert len(split) == world_size
    assert sorted(i for rank in split for i in rank) == list(range(len(sizes)))
    loads = [sum(sizes[i] for i in rank) for rank in split]
    assert max(loads) - min(loads) <= max(sizes, default=0)  # the bound of longest-first greedy
    assert all(rank == sorted(rank) for rank in split)


def test_splitting_by_hand():
    # 7 → rank 0; 5 → rank 1; 4 → rank 1 (5 < 7); 3 → rank 0
    assert split_over_ranks(samples_of([3, 4, 5, 7]), 2) == [[0, 3], [1, 2]]


def test_more_ranks_than_samples_leaves_ranks_empty():
    assert split_over_ranks(samples_of([3]), 3) == [[0], [], []]


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="max_tokens is 0"):
        pack_micro_batches([], 0)
    with pytest.raises(ValueError, match="world_size is 0"):
        split_over_ranks([], 0)
