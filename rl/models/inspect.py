"""Reads what a model's files say about it, without weights: context, linear layers, tokenizer."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rl.config.schema import ModelConfig
from rl.models.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Rotary scalings that transformers' max_position_embeddings does not include yet. All others name
# the scaled length there (vLLM computes its limit alike).
_STRETCHING = ("linear", "dynamic")


@dataclass(frozen=True)
class ModelFacts:
    """What is known before weights load.

    ``context_limit`` in tokens, ``None`` when the model names none. ``linear_layers`` are all
    linear layers by dotted name, with their numbers of (inputs, outputs).
    """

    context_limit: int | None
    linear_layers: Mapping[str, tuple[int, int]]

    def layer_names(self) -> list[str]:
        """Return the last parts of the linear layers' names, each once, sorted."""
        return sorted({name.rsplit(".", 1)[-1] for name in self.linear_layers})


def model_key(model: ModelConfig) -> str:
    """Return the key and value that chose the model, for messages."""
    return f"model.path={model.path}" if model.source == "path" else f"model.source={model.source}"


def read_model(name: str, shown: str) -> ModelFacts:
    """Return the facts of the model ``name``, a folder or a hub id; ``shown`` stands in errors.

    The model is built on torch's ``meta`` device, which holds no values.

    Raises:
        ModelError: the model cannot be found or read, or generates no text.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with _readable(shown, "configuration"):
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
        limit = _context_limit(config)
    with _readable(shown, "model"), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    return ModelFacts(limit, _linear_layers(model))


def read_tokenizer(name: str, shown: str) -> "PreTrainedTokenizerBase":
    """Return the tokenizer of the model ``name``, a folder or a hub id.

    Raises:
        ModelError: it cannot be found or read.
    """
    from transformers import AutoTokenizer

    with _readable(shown, "tokenizer"):
        return AutoTokenizer.from_pretrained(name, trust_remote_code=False)


@contextmanager
def _readable(shown: str, what: str) -> Iterator[None]:
    """Turn any failure of the libraries inside into one :class:`ModelError`.

    A damaged file makes transformers and tokenizers raise nearly anything, bare ``Exception``
    included, so no shorter list would do.
    """
    try:
        yield
    except Exception as error:
        raise ModelError(f"{shown}: the {what} cannot be read: {_first_words(error)}") from error


def _first_words(error: BaseException) -> str:
    """Return the first line of a message, with the next where it ends in a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    words = " ".join(lines[:2] if lines and lines[0].endswith(":") else lines[:1])
    told = isinstance(error, OSError) or type(error) is ValueError
    return words if told and words else f"{type(error).__name__}: {words}".rstrip(": ")


def _context_limit(config: Any) -> int | None:
    text = config.get_text_config()
    limit = getattr(text, "max_position_embeddings", None)
    if not isinstance(limit, int):
        return None
    rope = getattr(text, "rope_parameters", None) or {}
    groups = rope.values() if all(isinstance(v, Mapping) for v in rope.values()) else [rope]
    stretched = [g.get("factor") or 1.0 for g in groups if g.get("rope_type") in _STRETCHING]
    return int(limit * max(stretched, default=1.0))


def _linear_layers(model: Any) -> dict[str, tuple[int, int]]:
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    layers = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            layers[name] = (module.in_features, module.out_features)
        elif isinstance(module, Conv1D):  # GPT-2's linear layer, stored the other way round
            inputs, outputs = module.weight.shape
            layers[name] = (inputs, outputs)
    return layers
