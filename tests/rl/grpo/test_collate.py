"""Padding by hand."""

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from rl.grpo.batch import TrainingSample
from rl.grpo.collate import collate


def sample(ids, mask, logprobs, advantage):
    return TrainingSample(
        tuple(ids), tuple(mask), tuple(logprobs), advantage, 0.0, "0-task", "g", 0, "assistant@0.0"
    )


def test_two_samples_by_hand():
    batch = collate(
        [
            sample([5, 6, 7, 8], [0, 0, 1, 1], [0.0, 0.0, -0.5, -1.5], 2.0),
            sample([9, 4], [0, 1], [0.0, -3.0], -1.0),
        ],
        torch.float64,
        "cpu",
    )
    assert batch.ids.tolist() == [[5, 6, 7, 8], [9, 4, 0, 0]]
    assert batch.attention_mask.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert batch.mask.tolist() == [[False, False, True, True], [False, True, False, False]]
    assert batch.behaviour_logprobs.tolist() == [[0.0, 0.0, -0.5, -1.5], [0.0, -3.0, 0.0, 0.0]]
    assert batch.advantages.tolist() == [[2.0] * 4, [-1.0, -1.0, 0.0, 0.0]]
    assert batch.ids.dtype == torch.long and batch.mask.dtype == torch.bool
    assert batch.behaviour_logprobs.dtype == batch.advantages.dtype == torch.float64


def test_pitfall_30_no_samples_give_a_row_that_trains_nothing():
    batch = collate([], torch.float32, "cpu")
    assert batch.ids.shape == (1, 2)
    assert batch.attention_mask.tolist() == [[1, 1]]  # attention over nothing at all would be NaN
    assert not batch.mask.any()


@given(lengths=st.lists(st.integers(2, 20), min_size=1, max_size=6), seed=st.integers(0, 2**32 - 1))
def test_rows_hold_their_samples_and_padding_holds_nothing(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    samples = []
    for length in lengths:
        ids = torch.randint(1, 99, (length,), generator=generator).tolist()
        mask = [0, *torch.randint(0, 2, (length - 1,), generator=generator).tolist()]
        samples.append(sample(ids, mask, [-0.25 * m for m in mask], 1.5))
    batch = collate(samples, torch.float32, "cpu")
    assert batch.ids.shape == (len(lengths), max(lengths))
    for row, (made, length) in enumerate(zip(samples, lengths, strict=True)):
        assert batch.attention_mask[row].sum() == length
        assert tuple(batch.ids[row, :length].tolist()) == made.ids
        assert tuple(batch.mask[row, :length].int().tolist()) == made.mask
        assert tuple(batch.behaviour_logprobs[row, :length].tolist()) == made.behaviour_logprobs
        for values in (batch.ids, batch.attention_mask, batch.mask, batch.advantages):
            assert not values[row, length:].any()


def test_rows_of_an_older_version_are_not_current():
    old = replace(sample([1, 2, 3], [0, 1, 1], [0.0, -1.0, -1.0], 1.0), version="assistant@0.1")
    new = replace(old, version="assistant@0.2", mask=(0, 0, 1))
    batch = collate([old, new], torch.float32, "cpu", "assistant@0.2")
    assert batch.current.tolist() == [[False, False, False], [False, False, True]]
    assert collate([old, new], torch.float32, "cpu").current.equal(batch.mask)
