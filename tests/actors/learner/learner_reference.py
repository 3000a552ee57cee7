"""The learner's arithmetic once more, plainly: transformers, peft, full logits, torch's AdamW.

Written from the formulas in float64, one sample at a time: no padding, chunks or micro-batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from learner_scenarios import TEMPERATURE, exact_norm
from torch import Tensor

from rl.grpo.batch import TrainingSample


@dataclass(frozen=True)
class Formula:
    """The constants of the loss and of the optimiser."""

    clip_low: float = 0.2
    clip_high: float = 0.28
    importance_cap: float = 2.0
    kl_beta: float = 0.0
    sequence_mean: bool = False
    weight_decay: float = 0.0
    max_grad_norm: float = 1e9
    rates: tuple[float, ...] = (1e-3,)  # one for each update of the batch


@dataclass(frozen=True)
class Update:
    """What one update saw and did; ``gradients`` are those that the optimiser got."""

    loss: float
    grad_norm: float
    gradients: dict[str, Tensor]
    clipped: float
    capped: float


class ReferencePolicy:
    """A base model with a trainable adapter from a folder that peft wrote."""

    def __init__(self, base: Path, adapter: Path) -> None:
        from peft import PeftModel

        self.base = _load_exact(base)
        self.model = PeftModel.from_pretrained(
            _load_exact(base), adapter, is_trainable=True, autocast_adapter_dtype=False
        )
        self.parameters = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        self._optimizer: torch.optim.AdamW | None = None

    def logprobs(self, sample: TrainingSample) -> Tensor:
        """The log-prob of each trained token, in order."""
        return token_logprobs(self.model, sample)

    def train(self, samples: Sequence[TrainingSample], formula: Formula) -> list[Update]:
        """All updates of one batch."""
        with torch.no_grad():
            prox = [self.logprobs(sample) for sample in samples]
            base = [token_logprobs(self.base, sample) for sample in samples]
        return [self._update(samples, prox, base, formula, rate) for rate in formula.rates]

    def _update(
        self,
        samples: Sequence[TrainingSample],
        prox: Sequence[Tensor],
        base: Sequence[Tensor],
        formula: Formula,
        rate: float,
    ) -> Update:
        tokens = sum(sum(sample.mask) for sample in samples)
        total = torch.zeros((), dtype=prox[0].dtype)
        clipped = capped = 0.0
        for sample, old, reference in zip(samples, prox, base, strict=True):
            new = self.logprobs(sample)
            behaviour = [
                b for b, m in zip(sample.behaviour_logprobs, sample.mask, strict=True) if m
            ]
            weight = (old - torch.tensor(behaviour, dtype=old.dtype)).exp()
            ratio = (new - old).exp()
            low, high = 1 - formula.clip_low, 1 + formula.clip_high
            gain = torch.minimum(
                ratio * sample.advantage, ratio.clamp(low, high) * sample.advantage
            )
            terms = -gain * weight.clamp(max=formula.importance_cap)
            gap = reference - new
            terms = terms + formula.kl_beta * (gap.exp() - gap - 1)
            share = 1 / (len(new) * len(samples)) if formula.sequence_mean else 1 / tokens
            total = total + terms.sum() * share
            clipped += float((gain < ratio * sample.advantage).sum())
            capped += float((weight > formula.importance_cap).sum())
        self.model.zero_grad()
        total.backward()
        norm = self._step(formula, rate)
        gradients = {n: p.grad.clone() for n, p in self.parameters.items() if p.grad is not None}
        return Update(total.item(), norm, gradients, clipped / tokens, capped / tokens)

    def _step(self, formula: Formula, rate: float) -> float:
        if self._optimizer is None:
            self._optimizer = torch.optim.AdamW(
                self.parameters.values(), weight_decay=formula.weight_decay
            )
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm().item()
        if norm > formula.max_grad_norm:
            for gradient in gradients:
                gradient *= formula.max_grad_norm / (norm + 1e-6)  # torch's own tiny constant
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        return norm


def token_logprobs(model: torch.nn.Module, sample: TrainingSample) -> Tensor:
    """The log-prob of each trained token of one sample, from all logits."""
    ids = torch.tensor([sample.ids])
    logits = model(input_ids=ids).logits[0, :-1] / TEMPERATURE
    picked = logits.log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
    return picked[torch.tensor(sample.mask[1:], dtype=torch.bool)]


def _load_exact(base: Path) -> torch.nn.Module:
    """A model that computes in float64 throughout."""
    from transformers import AutoModelForCausalLM
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64)
    for module in model.modules():
        if isinstance(module, LlamaRMSNorm):
            module.forward = partial(exact_norm, module)
    return model
