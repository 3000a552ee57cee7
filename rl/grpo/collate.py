"""Padding the samples of a micro-batch into tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rl.grpo.batch import TrainingSample


@dataclass(frozen=True)
class MicroBatch:
    """Samples padded on the right to their longest, [rows, tokens] each.

    ``advantages`` repeats a sample's advantage over its row; ``behaviour_logprobs`` is aligned
    with ``ids`` and 0 where ``mask`` is 0. ``current`` is ``mask`` without the rows that an older
    version wrote.
    """

    ids: Tensor
    attention_mask: Tensor
    mask: Tensor
    behaviour_logprobs: Tensor
    advantages: Tensor
    current: Tensor


def collate(
    samples: Sequence[TrainingSample], dtype: torch.dtype, device: str, version: str | None = None
) -> MicroBatch:
    """Pad ``samples``, of which those by ``version`` are current (``None``: all).

    No samples give one row of two tokens that trains nothing: it lets a rank without work take
    part in the collectives of a step.
    """
    longest = max((len(sample.ids) for sample in samples), default=2)
    rows = max(len(samples), 1)
    ids = torch.zeros(rows, longest, dtype=torch.long)
    attention_mask = torch.zeros(rows, longest, dtype=torch.long)
    mask = torch.zeros(rows, longest, dtype=torch.bool)
    behaviour = torch.zeros(rows, longest, dtype=dtype)
    advantages = torch.zeros(rows, longest, dtype=dtype)
    current = torch.zeros(rows, longest, dtype=torch.bool)
    if not samples:
        attention_mask[:] = 1
    for row, sample in enumerate(samples):
        length = len(sample.ids)
        ids[row, :length] = torch.tensor(sample.ids)
        attention_mask[row, :length] = 1
        mask[row, :length] = torch.tensor(sample.mask, dtype=torch.bool)
        behaviour[row, :length] = torch.tensor(sample.behaviour_logprobs, dtype=dtype)
        advantages[row, :length] = sample.advantage
        current[row] = mask[row] & (version is None or sample.version == version)
    tensors = (ids, attention_mask, mask, behaviour, advantages, current)
    return MicroBatch(*(tensor.to(device) for tensor in tensors))
