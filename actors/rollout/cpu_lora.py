"""Adapters in vLLM on a CPU: dense products over all loaded adapters, without copying weights.

vLLM 0.31 copies every token's adapter weights before it multiplies. Here every token meets all
slots in one product, and what belongs to other slots is set to 0 in between; the result is the
same sum. vLLM imports this module in its worker process (``worker_extension_cls``), and the import
puts the products in place.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class DenseLoraWorker:
    """Adds nothing to vLLM's worker: naming it makes the worker import this module."""


def add_dense_lora(
    output: Tensor,
    states: Tensor,
    a_slots: Sequence[Tensor],
    b_slots: Sequence[Tensor],
    scale: float,
    output_slices: Sequence[int],
    slot_of_token: Tensor,
) -> None:
    """Add ``scale · B[slot] A[slot] x`` to each token's ``output``, one slice after the other.

    ``output`` [tokens, sum of slices] changes in place; ``states`` is [tokens, input]. For slice i
    ``a_slots[i]`` is [slots, 1, rank, input] and ``b_slots[i]`` [slots, 1, slice, rank].
    ``slot_of_token`` [tokens] is −1 where a token has no adapter.
    """
    start = 0
    for a, b, width in zip(a_slots, b_slots, output_slices, strict=True):
        slots, rank = a.shape[0], a.shape[-2]
        owners = torch.arange(slots, device=states.device).repeat_interleave(rank)
        own = (slot_of_token.unsqueeze(1) == owners).to(states.dtype) * scale
        reduced = (states @ a.reshape(slots * rank, -1).t()) * own
        expand = b.reshape(slots, -1, rank).transpose(1, 2).reshape(slots * rank, -1)
        output[:, start : start + width] += (reduced @ expand).to(output.dtype)
        start += width


def install() -> None:
    """Replace the product of vLLM's CPU adapter layers in this process."""
    from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

    def add_lora_linear(
        self: Any,
        y: Tensor,
        x: Tensor,
        lora_a_stacked: tuple[Tensor, ...],
        lora_b_stacked: tuple[Tensor, ...],
        scale: float,
        output_slices: tuple[int, ...],
        **_: Any,
    ) -> None:
        if self.no_lora and self.is_prefill:
            return
        rows = x.view(-1, x.shape[-1])
        add_dense_lora(
            y.view(-1, y.shape[-1]),
            rows,
            lora_a_stacked,
            lora_b_stacked,
            scale,
            output_slices,
            self.token_lora_indices[: len(rows)],
        )

    PunicaWrapperCPU.add_lora_linear = add_lora_linear


install()
