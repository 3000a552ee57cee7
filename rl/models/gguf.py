"""Reading a Llama in GGUF format: one pass gives the configuration, the tokenizer and the weights.

``from_pretrained(gguf_file=...)`` of transformers parses the file four times for the same, a minute
of processor time for a small model; the functions below are the ones that it calls.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BEGIN_TURN, END_TURN, UNKNOWN = "<|im_start|>", "<|im_end|>", "<|endoftext|>"

_CONTROL = 3  # GGUF's token type of special tokens


def read_gguf(path: Path, layers: int = 0) -> dict[str, Any]:
    """Return ``config``, ``tokenizer`` and ``tokenizer_config`` of a GGUF file.

    With ``layers`` > 0 (the model's depth) also ``tensors``: float32 weights by transformers'
    parameter names, de-quantised and with the rotary halves in transformers' order.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    if layers == 0:
        return load_gguf_checkpoint(str(path))
    with torch.device("meta"):  # names only, no memory
        names = LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers))
    return load_gguf_checkpoint(
        str(path), return_tensors=True, model_to_load=names, torch_dtype=torch.float32
    )


def build_tokenizer(parsed: dict[str, Any], chat_template: str) -> "PreTrainedTokenizerBase":
    """Return SmolLM2's tokenizer from the vocabulary and merges of its GGUF file.

    The file names the pre-tokenizer only as ``smollm``: every digit stands alone, then GPT-2's byte
    level. transformers' conversion leaves the digits out, which changes the ids of spaces before
    numbers, and takes ``<|im_start|>`` for the end of a turn; both are put right here.
    """
    from tokenizers import AddedToken, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.integrations.ggml import convert_gguf_tokenizer

    backend, _ = convert_gguf_tokenizer("llama", parsed)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    special = [
        AddedToken(token, special=True, normalized=False)
        for token, kind in zip(parsed["tokens"], parsed["token_type"], strict=True)
        if kind == _CONTROL
    ]
    backend.add_special_tokens(special)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=BEGIN_TURN,
        eos_token=END_TURN,
        pad_token=END_TURN,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,  # decoded text is what was sampled
        chat_template=chat_template,
    )
