"""The policy loss of one micro-batch, as its share of the whole batch's loss.

Decoupled PPO: the ratio π_θ/π_prox is clipped, and the clipped term is multiplied once by a
detached truncated importance weight min(π_prox/π_behaviour, C). Every token carries its share of
the loss, taken from the batch's global counts, so the sum over micro-batches and ranks does not
depend on how the batch was cut.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rl.config.schema import GrpoConfig
from rl.grpo.loss_metrics import loss_sums

if TYPE_CHECKING:
    from verl.workers.config import ActorConfig

# verl clamps the log ratio to ±20, so the ratio is below e²⁰ ≈ 4.9e8 and a dual clip at 1e9 can
# never act.
_NO_DUAL_CLIP = 1e9


class Aggregation(StrEnum):
    """How token losses become one number."""

    TOKEN_MEAN = "token_mean"  # every trained token of the batch counts the same
    SEQUENCE_MEAN = "sequence_mean"  # every sample counts the same, whatever its length


class LossOutcome(StrEnum):
    """Whether a micro-batch had anything to train on."""

    TRAINED = "trained"
    NO_TRAINED_TOKENS = "no_trained_tokens"


@dataclass(frozen=True)
class PolicyLossInput:
    """Tensors of one micro-batch, all [rows, tokens]; one row is one sample.

    Position t belongs to the token that is predicted there. Log-probs are natural logs at the
    sampler's temperature: ``logprobs`` of π_θ (with gradient), ``prox_logprobs`` of π_prox
    (recomputed before the first update of the batch), ``behaviour_logprobs`` of the sampler,
    ``ref_logprobs`` of the reference (needed when β > 0). ``mask`` is 1 on trained tokens.
    Values outside the mask are ignored, whatever they are.
    """

    logprobs: Tensor
    prox_logprobs: Tensor
    behaviour_logprobs: Tensor
    ref_logprobs: Tensor | None
    advantages: Tensor
    mask: Tensor


@dataclass(frozen=True)
class LossCounts:
    """Trained tokens and samples of the whole batch, over all micro-batches and ranks."""

    tokens: int
    samples: int


@dataclass(frozen=True)
class PolicyLossOutput:
    """The micro-batch's share of the loss, and sums that add up over micro-batches and ranks.

    ``loss`` is a scalar with gradient; see :mod:`rl.grpo.loss_metrics` for ``metrics``. With
    ``NO_TRAINED_TOKENS`` the loss is 0 and its gradient is exactly 0: the caller counts the
    batch and skips the update when this holds for all of its micro-batches.
    """

    loss: Tensor
    metrics: dict[str, float]
    outcome: LossOutcome


def policy_loss(batch: PolicyLossInput, counts: LossCounts, config: GrpoConfig) -> PolicyLossOutput:
    """Return PPO-clip + β·KL of one micro-batch divided by the batch's global counts.

    Summed over micro-batches and ranks this is the loss of the batch. A data-parallel engine that
    averages gradients over ranks divides it by the world size once more: the caller undoes that.

    The clipped term is verl's ``compute_policy_loss_vanilla`` and the KL to the reference is its
    ``low_var_kl`` (k3). verl clamps the log ratio to ±20 in both, and a token's k3 to 10, from
    where on it has no gradient: there the reference makes the token at least 13.6 times as likely
    as the policy does. Raises ``ValueError`` for tensors of different shapes, for β > 0 without
    reference log-probs, and for global counts below those of the micro-batch.
    """
    batch = _inside_mask(batch)
    _check(batch, counts, config)
    tokens = int(batch.mask.sum())
    if tokens == 0:
        nothing = batch.logprobs[:, :0].sum()  # 0, yet part of the graph
        return PolicyLossOutput(nothing, {}, LossOutcome.NO_TRAINED_TOKENS)
    shares = token_shares(batch.mask, counts, config.aggregation, batch.logprobs.dtype)
    weights = importance_weights(batch.prox_logprobs, batch.behaviour_logprobs)
    policy = _clipped_term(batch, shares * weights.clamp(max=config.importance_cap), config)
    kl = _kl_term(batch, shares) if config.kl_beta > 0 else policy.new_zeros(())
    loss = policy + config.kl_beta * kl
    metrics = loss_sums(
        log_ratio=(batch.logprobs - batch.prox_logprobs).detach(),
        log_mismatch=batch.prox_logprobs - batch.behaviour_logprobs,
        advantages=batch.advantages,
        mask=batch.mask,
        config=config,
    )
    metrics |= {"loss": loss.item(), "policy_loss": policy.item(), "kl_loss": kl.item()}
    return PolicyLossOutput(loss, metrics, LossOutcome.TRAINED)


def token_shares(mask: Tensor, counts: LossCounts, aggregation: str, dtype: torch.dtype) -> Tensor:
    """Return each token's share of the batch's loss, [rows, tokens]; the whole batch's sum is 1.

    ``token_mean``: 1 / tokens of the batch. ``sequence_mean``: 1 / (tokens of its row · samples
    of the batch). verl's own ``seq-mean-token-mean`` is not used: it adds 1e-8 to the row's
    count, which is wrong by more than float64 can tell.
    """
    mask = mask.to(dtype)
    if Aggregation(aggregation) is Aggregation.TOKEN_MEAN:
        return mask / counts.tokens
    row_tokens = mask.sum(dim=-1, keepdim=True).clamp(min=1)
    return mask / (row_tokens * counts.samples)


def importance_weights(prox_logprobs: Tensor, behaviour_logprobs: Tensor) -> Tensor:
    """Return the untruncated, detached π_prox/π_behaviour of each token."""
    return (prox_logprobs - behaviour_logprobs).detach().exp()


def _inside_mask(batch: PolicyLossInput) -> PolicyLossInput:
    """Zero everything outside the mask, so that padding can reach neither loss nor gradient."""
    mask = batch.mask.bool()

    def keep(values: Tensor) -> Tensor:
        if values.shape != mask.shape:
            raise ValueError(f"shape {tuple(values.shape)} where the mask has {tuple(mask.shape)}")
        return torch.where(mask, values, torch.zeros_like(values))

    reference = None if batch.ref_logprobs is None else keep(batch.ref_logprobs.detach())
    return PolicyLossInput(
        logprobs=keep(batch.logprobs),
        prox_logprobs=keep(batch.prox_logprobs.detach()),
        behaviour_logprobs=keep(batch.behaviour_logprobs.detach()),
        ref_logprobs=reference,
        advantages=keep(batch.advantages.detach()),
        mask=mask,
    )


def _check(batch: PolicyLossInput, counts: LossCounts, config: GrpoConfig) -> None:
    if config.kl_beta > 0 and batch.ref_logprobs is None:
        raise ValueError(f"kl_beta is {config.kl_beta}, but there are no reference log-probs")
    tokens = int(batch.mask.sum())
    samples = int(batch.mask.any(dim=-1).sum())
    if counts.tokens < tokens or counts.samples < samples:
        raise ValueError(
            f"global counts {counts.tokens} tokens and {counts.samples} samples are below the "
            f"micro-batch's {tokens} and {samples}"
        )


def _clipped_term(batch: PolicyLossInput, weights: Tensor, config: GrpoConfig) -> Tensor:
    """Return Σ weights · max(−A·ratio, −A·clip(ratio)); ``token-sum`` adds no denominator."""
    loss, _ = _verl().compute_policy_loss_vanilla(
        old_log_prob=batch.prox_logprobs,
        log_prob=batch.logprobs,
        advantages=batch.advantages,
        response_mask=batch.mask.to(batch.logprobs.dtype),
        loss_agg_mode="token-sum",
        config=_verl_config(config.clip_low, config.clip_high),
        rollout_is_weights=weights,
    )
    return loss


def _kl_term(batch: PolicyLossInput, shares: Tensor) -> Tensor:
    """Return Σ shares · k3(π_θ ‖ reference)."""
    kl = _verl().kl_penalty(batch.logprobs, batch.ref_logprobs, "low_var_kl")
    mask = batch.mask.to(shares.dtype)
    return _verl().agg_loss(loss_mat=kl * shares, loss_mask=mask, loss_agg_mode="token-sum")


def _verl() -> Any:
    """Return verl's algorithms; untyped, since its annotations know float32 tensors only."""
    from verl.trainer.ppo import core_algos  # takes seconds: paid by those who compute a loss

    return core_algos


@lru_cache(maxsize=8)
def _verl_config(clip_low: float, clip_high: float) -> "ActorConfig":
    """Return verl's actor configuration with our clip; the rest of it plays no part in the loss."""
    from verl.workers.config import ActorConfig

    return ActorConfig(
        strategy="fsdp",  # must be named; the loss does not read it
        rollout_n=1,
        use_dynamic_bsz=True,
        clip_ratio=clip_low,
        clip_ratio_low=clip_low,
        clip_ratio_high=clip_high,
        clip_ratio_c=_NO_DUAL_CLIP,
    )
