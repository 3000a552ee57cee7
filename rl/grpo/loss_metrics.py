"""Diagnostics of the policy loss as sums, so that they add up over micro-batches and ranks."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from rl.config.schema import GrpoConfig

# A token's log ratio is held to ±20 in diagnostics, as in the loss: e²⁰ is readable, inf is not.
_MAX_LOG_RATIO = 20.0

# mean: its sum, divided by trained tokens
_TOKEN_MEANS = {
    "clip_fraction": "clipped_tokens",
    "ratio_mean": "ratio_sum",
    "approx_kl": "approx_kl_sum",
    "mismatch_kl": "mismatch_kl_sum",
    "importance_weight_mean": "importance_weight_sum",
    "importance_capped_fraction": "capped_tokens",
}
_SHARES = ("loss", "policy_loss", "kl_loss")


def loss_sums(
    *,
    log_ratio: Tensor,
    log_mismatch: Tensor,
    advantages: Tensor,
    mask: Tensor,
    config: GrpoConfig,
) -> dict[str, float]:
    """Return sums over the trained tokens of one micro-batch.

    ``log_ratio`` is log π_θ/π_prox, ``log_mismatch`` is log π_prox/π_behaviour, both detached,
    [rows, tokens] like ``advantages`` and the boolean ``mask``. KL sums use k3, which is never
    negative: ``approx_kl`` of π_prox against π_θ, ``mismatch_kl`` of the sampler against π_prox.
    ``importance_weight_sum`` adds the truncated weights, ``capped_tokens`` counts those cut.
    """
    log_ratio, log_mismatch, advantages = (
        values[mask].double() for values in (log_ratio, log_mismatch, advantages)
    )
    ratio = log_ratio.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
    weights = log_mismatch.exp()
    above = (advantages > 0) & (ratio > 1 + config.clip_high)
    below = (advantages < 0) & (ratio < 1 - config.clip_low)
    sums = {
        "tokens": mask.sum(),
        "samples": mask.any(dim=-1).sum(),
        "clipped_tokens": (above | below).sum(),
        "ratio_sum": ratio.sum(),
        "approx_kl_sum": _k3(log_ratio).sum(),
        "mismatch_kl_sum": _k3(log_mismatch).sum(),
        "importance_weight_sum": weights.clamp(max=config.importance_cap).sum(),
        "capped_tokens": (weights > config.importance_cap).sum(),
    }
    values = torch.stack([value.double() for value in sums.values()]).tolist()  # one device sync
    return dict(zip(sums, values, strict=True))


def current_mismatch_sums(log_mismatch: Tensor, current: Tensor) -> dict[str, float]:
    """Return the k3 sum and the count of the ``current`` tokens, [rows, tokens] like the mismatch.

    Over tokens that the trained policy wrote itself, ``log_mismatch`` = log π_prox/π_behaviour is
    numerical difference between sampler and learner alone (pitfall 8).
    """
    values = log_mismatch.detach()[current].double()
    return {
        "current_tokens": float(values.numel()),
        "current_mismatch_kl_sum": float(_k3(values).sum()),
    }


def add_sums(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Add up the metrics of micro-batches or ranks; an empty part (no tokens) adds nothing."""
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0.0) + value
    return total


def mean_metrics(sums: Mapping[str, float]) -> dict[str, float | None]:
    """Turn sums over a whole batch into means; all are ``None`` when no token was trained."""
    tokens = sums.get("tokens", 0.0)
    means: dict[str, float | None] = {
        mean: sums[total] / tokens if tokens else None for mean, total in _TOKEN_MEANS.items()
    }
    current = sums.get("current_tokens", 0.0)
    means["mismatch_kl_current"] = sums["current_mismatch_kl_sum"] / current if current else None
    return means | {name: sums.get(name) for name in _SHARES}


def _k3(log_ratio: Tensor) -> Tensor:
    """Return r − 1 − log r, for samples of r's denominator (Schulman, "Approximating KL")."""
    clamped = log_ratio.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    return torch.expm1(clamped) - clamped
