"""The losses of SFT and DPO, divided by the whole batch's counts like the policy loss.

Summed over micro-batches and ranks they are the batch's loss, so that the result does not depend on
the partition (pitfall 17).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


@dataclass(frozen=True)
class PreferenceOutput:
    """A micro-batch's share of the loss (a scalar with gradient), and sums over its pairs.

    ``correct`` counts pairs whose chosen side gained more on the reference than the rejected one;
    ``margin`` is the sum of β times that difference.
    """

    loss: Tensor
    pairs: int
    correct: int
    margin: float


def sft_loss(logprobs: Tensor, mask: Tensor, batch_tokens: int) -> Tensor:
    """Return −Σ log π(token) over the masked tokens / ``batch_tokens``.

    ``logprobs`` and ``mask`` are [rows, tokens]; ``batch_tokens`` counts the masked tokens of the
    whole batch. A micro-batch without any gives 0 with a gradient of 0.

    Raises:
        ValueError: shapes differ, or the batch has fewer tokens than the micro-batch.
    """
    _check_shape(logprobs, mask)
    own = int(mask.sum())
    if batch_tokens < max(own, 1):
        raise ValueError(f"the batch has {batch_tokens} tokens, but its micro-batch has {own}")
    return -torch.where(mask.bool(), logprobs, torch.zeros_like(logprobs)).sum() / batch_tokens


def dpo_loss(
    logprobs: Tensor, reference: Tensor, mask: Tensor, batch_pairs: int, beta: float
) -> PreferenceOutput:
    """Return Σ −log σ(β((log π − log π_ref)(chosen) − (log π − log π_ref)(rejected))) / pairs.

    The sigmoid loss of Rafailov et al. (arXiv 2305.18290, equation 7). Rows of ``logprobs``,
    ``reference`` and ``mask`` [2 · pairs, tokens] alternate: chosen, rejected, chosen, … A reply's
    log-prob is the sum over its masked tokens. ``batch_pairs`` counts the pairs of the whole batch.

    Raises:
        ValueError: shapes differ, rows do not pair up, a side has no token, or the counts do not
            fit.
    """
    _check_shape(logprobs, mask)
    _check_shape(reference, mask)
    if mask.shape[0] % 2:
        raise ValueError(f"{mask.shape[0]} rows do not pair up: chosen and rejected alternate")
    pairs = mask.shape[0] // 2
    if batch_pairs < max(pairs, 1):
        raise ValueError(f"the batch has {batch_pairs} pairs, but its micro-batch has {pairs}")
    keep = mask.bool()
    if not bool(keep.any(dim=-1).all()):
        raise ValueError("a side of a pair has no trained token")
    gains = torch.where(keep, logprobs - reference.detach(), torch.zeros_like(logprobs)).sum(dim=-1)
    margins = beta * (gains[0::2] - gains[1::2])
    return PreferenceOutput(
        loss=-logsigmoid(margins).sum() / batch_pairs,
        pairs=pairs,
        correct=int((margins > 0).sum()),
        margin=float(margins.detach().sum()),
    )


def _check_shape(values: Tensor, mask: Tensor) -> None:
    if values.shape != mask.shape:
        raise ValueError(f"shape {tuple(values.shape)} where the mask has {tuple(mask.shape)}")
