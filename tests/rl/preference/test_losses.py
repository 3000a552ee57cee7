"""SFT and DPO losses: by hand, by plain PyTorch, and whatever the partition."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.preference.losses import dpo_loss, sft_loss

LOGPROBS = torch.tensor([[-1.0, -2.0, -9.0], [-3.0, -9.0, -9.0]], dtype=torch.float64)
MASK = torch.tensor([[1, 1, 0], [1, 0, 0]])


def test_sft_by_hand() -> None:
    assert sft_loss(LOGPROBS, MASK, 3).item() == pytest.approx(2.0)
    assert sft_loss(LOGPROBS, MASK, 6).item() == pytest.approx(1.0)


def test_sft_equals_cross_entropy() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 5, 7, dtype=torch.float64)
    labels = torch.randint(7, (2, 5))
    mask = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]])
    chosen = logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.masked_fill(mask == 0, -100).flatten()
    )
    assert sft_loss(chosen, mask, int(mask.sum())).item() == pytest.approx(expected.item())


def test_outside_the_mask_nothing_reaches_loss_or_gradient() -> None:
    values = LOGPROBS.clone()
    values[MASK == 0] = float("nan")
    values.requires_grad_()
    loss = sft_loss(values, MASK, 3)
    loss.backward()
    assert loss.item() == pytest.approx(2.0)
    assert torch.equal(values.grad, -MASK.double() / 3)


def test_pitfall_30_an_empty_mask_gives_0_with_a_gradient_of_0() -> None:
    values = LOGPROBS.clone().requires_grad_()
    loss = sft_loss(values, torch.zeros_like(MASK), 3)
    loss.backward()
    assert loss.item() == 0.0
    assert not values.grad.any()


def test_dpo_by_hand() -> None:
    """Chosen gained 0.5 + 0.5 on the reference, rejected −1: margin 0.1 · 2."""
    reference = torch.tensor([[-1.5, -2.5, 0.0], [-2.0, 0.0, 0.0]], dtype=torch.float64)
    output = dpo_loss(LOGPROBS, reference, MASK, 1, beta=0.1)
    assert output.loss.item() == pytest.approx(math.log1p(math.exp(-0.2)))
    assert (output.pairs, output.correct) == (1, 1)
    assert output.margin == pytest.approx(0.2)


def test_dpo_at_the_reference_is_log_2_and_pushes_both_sides() -> None:
    values = LOGPROBS.clone().requires_grad_()
    output = dpo_loss(values, LOGPROBS, MASK, 1, beta=0.1)
    output.loss.backward()
    assert output.loss.item() == pytest.approx(math.log(2))
    assert output.correct == 0
    expected = torch.tensor([[-0.05, -0.05, 0], [0.05, 0, 0]], dtype=torch.float64)
    torch.testing.assert_close(values.grad, expected)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 2**31 - 1))
def test_pitfall_17_any_partition_gives_the_same_loss(lengths: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    rows = 2 * len(lengths)
    values, reference = torch.randn(2, rows, 5, dtype=torch.float64)
    mask = torch.zeros(rows, 5)
    for row in range(rows):
        mask[row, : lengths[row // 2]] = 1
    tokens, pairs = int(mask.sum()), len(lengths)
    whole = dpo_loss(values, reference, mask, pairs, 0.5)
    parts = [
        dpo_loss(values[i : i + 2], reference[i : i + 2], mask[i : i + 2], pairs, 0.5)
        for i in range(0, rows, 2)
    ]
    assert sum(p.loss.item() for p in parts) == pytest.approx(whole.loss.item())
    assert sum(p.correct for p in parts) == whole.correct
    split = sum(sft_loss(values[i : i + 1], mask[i : i + 1], tokens).item() for i in range(rows))
    assert split == pytest.approx(sft_loss(values, mask, tokens).item())


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: sft_loss(LOGPROBS, MASK[:1], 3), "shape"),
        (lambda: sft_loss(LOGPROBS, MASK, 2), "the batch has 2 tokens, but its micro-batch has 3"),
        (lambda: sft_loss(LOGPROBS, MASK * 0, 0), "the batch has 0 tokens"),
        (lambda: dpo_loss(LOGPROBS[:1], LOGPROBS[:1], MASK[:1], 1, 0.1), "do not pair up"),
        (lambda: dpo_loss(LOGPROBS, LOGPROBS, MASK, 0, 0.1), "the batch has 0 pairs"),
        (lambda: dpo_loss(LOGPROBS, LOGPROBS, MASK * 0, 1, 0.1), "no trained token"),
        (lambda: dpo_loss(LOGPROBS, LOGPROBS[:1], MASK, 1, 0.1), "shape"),
    ],
)
def test_what_does_not_fit_is_refused(call, told) -> None:
    with pytest.raises(ValueError, match=told):
        call()
