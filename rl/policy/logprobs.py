"""Log-probs of trained tokens under the policy, without ever holding sequence × vocabulary logits.

Only positions that predict a trained token reach the output head, a chunk of them at a time, and
a chunk's logits are computed again in the backward pass instead of being kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Project = Callable[[Tensor], Tensor]

# Configuration keys with which transformers' models change the logits after the output head, and
# the value that changes nothing. A policy with another value cannot be scored from its head alone.
_LOGIT_TRANSFORMS: dict[str, float | None] = {
    "final_logit_softcapping": None,
    "output_logit_soft_cap": None,
    "logits_soft_cap": None,
    "logit_scale": 1.0,
    "logits_scaling": 1.0,
    "lm_head_multiplier": 1.0,
}


@dataclass(frozen=True)
class TrainedPositions:
    """Where a batch's trained tokens are predicted.

    ``hidden`` [n, hidden] are the states that predict them, ``targets`` [n] the tokens, and
    ``where`` [rows, tokens − 1] marks the places, in row order.
    """

    hidden: Tensor
    targets: Tensor
    where: Tensor


def gather_trained_positions(hidden: Tensor, ids: Tensor, mask: Tensor) -> TrainedPositions:
    """Select the states that predict trained tokens: token t is predicted at t − 1.

    ``hidden`` is [rows, tokens, hidden]; ``ids`` and ``mask`` are [rows, tokens]. Raises
    ``ValueError`` when a row's first token is trained: nothing predicts it.
    """
    trained = mask.bool()
    if bool(trained[:, :1].any()):
        raise ValueError("the first token of a row has mask 1, but no position predicts it")
    where = trained[:, 1:]
    return TrainedPositions(hidden[:, :-1][where], ids[:, 1:][where], where)


def token_logprobs(
    hidden: Tensor, project: Project, targets: Tensor, temperature: float, chunk_tokens: int
) -> Tensor:
    """Return log softmax(project(hidden) / temperature) at ``targets``, [n].

    ``hidden`` is [n, hidden], ``targets`` [n]; ``project`` maps states to logits (an output head;
    see :func:`linear_head`) and receives gradients like any module. At most ``chunk_tokens`` rows
    of logits exist at a time. Logits of a low precision are normalised in float32; float64 stays
    float64. Raises ``ValueError`` for a temperature or a chunk that is not above 0.
    """
    if temperature <= 0:
        raise ValueError(f"temperature is {temperature}; allowed: above 0")
    if chunk_tokens < 1:
        raise ValueError(f"chunk_tokens is {chunk_tokens}; allowed: at least 1")
    score = partial(_chunk_logprobs, project=project, temperature=temperature)
    chunks = zip(hidden.split(chunk_tokens), targets.split(chunk_tokens), strict=True)
    if not torch.is_grad_enabled():
        return torch.cat([score(states, wanted) for states, wanted in chunks])
    return torch.cat(
        [checkpoint(score, states, wanted, use_reentrant=False) for states, wanted in chunks]
    )


def linear_head(weight: Tensor, bias: Tensor | None = None) -> Project:
    """Return the projection of a plain output head: ``weight`` [vocabulary, hidden]."""
    return partial(F.linear, weight=weight, bias=bias)


def policy_logprobs(
    model: nn.Module,
    ids: Tensor,
    attention_mask: Tensor,
    mask: Tensor,
    temperature: float,
    chunk_tokens: int,
) -> Tensor:
    """Return the log-prob of each trained token, [rows, tokens − 1], 0.0 elsewhere.

    ``model`` is a transformers causal LM, bare or wrapped by peft; ``ids``, ``attention_mask``
    and ``mask`` are [rows, tokens], padded on the right. Entry t belongs to token t + 1, so that
    ``mask[:, 1:]`` is its mask. The result hangs on the graph even when no token is trained.
    Raises ``ValueError`` for a model whose logits are not those of its output head.
    """
    language_model = causal_lm(model)
    decoder = language_model.get_decoder()
    states = decoder(input_ids=ids, attention_mask=attention_mask, use_cache=False)
    hidden = states.last_hidden_state
    trained = gather_trained_positions(hidden, ids, mask)
    values = token_logprobs(
        trained.hidden,
        _output_projection(language_model),
        trained.targets,
        temperature,
        chunk_tokens,
    )
    return values.new_zeros(trained.where.shape).masked_scatter(trained.where, values)


class PolicyLogprobs(nn.Module):
    """A policy whose forward pass is :func:`policy_logprobs`.

    An engine that hooks forward passes (DeepSpeed ZeRO-3 gathers partitioned parameters in them)
    wraps this module, so that decoder and output head both run inside its forward pass.
    """

    def __init__(self, model: nn.Module, temperature: float, chunk_tokens: int) -> None:
        super().__init__()
        self.model = model
        self.temperature = temperature
        self.chunk_tokens = chunk_tokens

    def forward(self, ids: Tensor, attention_mask: Tensor, mask: Tensor) -> Tensor:
        """Return the log-prob of each trained token, [rows, tokens − 1]."""
        return policy_logprobs(
            self.model, ids, attention_mask, mask, self.temperature, self.chunk_tokens
        )


def causal_lm(model: nn.Module) -> "PreTrainedModel":
    """Return the transformers causal LM inside a peft wrapper, or ``model`` itself.

    Raises ``ValueError`` when its logits are more than the output head's, or when it has no head.
    """
    inner: Any = model
    if hasattr(inner, "get_base_model"):
        if getattr(inner.active_peft_config, "is_prompt_learning", False):
            raise ValueError("a prompt-learning adapter cannot be scored; allowed: LoRA")
        inner = inner.get_base_model()
    if not hasattr(inner, "get_output_embeddings") or inner.get_output_embeddings() is None:
        raise ValueError(f"{type(inner).__name__} has no output head; allowed: a causal LM")
    for name, neutral in _LOGIT_TRANSFORMS.items():
        value = getattr(inner.config.get_text_config(), name, None)
        if value is not None and value != neutral:
            raise ValueError(
                f"{type(inner).__name__}: {name} is {value}, which changes the logits after the "
                f"output head; allowed: {neutral}"
            )
    return inner


def _output_projection(language_model: "PreTrainedModel") -> Project:
    """Return the output head as a function.

    A plain head's weight is read once, inside the forward pass: under ZeRO-3 every call of a
    module is a collective, and ranks with different token counts would make different numbers of
    calls and wait for each other for ever. A head with an adapter has to be called as a module:
    it works at any world size up to ZeRO-2, and under ZeRO-3 on one rank only.
    """
    head: Any = language_model.get_output_embeddings()
    if type(head) is nn.Linear:
        return linear_head(head.weight, head.bias)
    return head


def _chunk_logprobs(
    states: Tensor, targets: Tensor, *, project: Project, temperature: float
) -> Tensor:
    logits = project(states)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    picked = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return picked - logits.logsumexp(dim=-1)
