"""The converted SmolLM2 is the package's model: same weights, right tokenizer, loads alone."""

import json

import pytest

from rl.models.embedded import GGUF_FILE, gguf_folder
from rl.models.gguf import read_gguf


@pytest.fixture(scope="module")
def tokenizer(smollm2_dir):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(smollm2_dir)


@pytest.fixture(scope="module")
def model(smollm2_dir):
    import torch
    from transformers import AutoModelForCausalLM

    model, report = AutoModelForCausalLM.from_pretrained(
        smollm2_dir, dtype=torch.float32, output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    return model.eval()


def _rotary_halves(weight, heads):
    """GGUF interleaves each head's rotary pairs (0, n/2, 1, …); transformers keeps two halves."""
    size = weight.shape[0] // heads
    within = [half + 2 * i for half in (0, 1) for i in range(size // 2)]
    return weight[[head * size + row for head in range(heads) for row in within]]


def test_weights_equal_the_dequantised_gguf(model):
    """An independent reading: the gguf library's de-quantiser and the rotary order by hand."""
    import numpy as np
    from gguf import GGUFReader, dequantize

    parts = {
        "attn_q": ("self_attn.q_proj", 9),
        "attn_k": ("self_attn.k_proj", 3),
        "attn_v": ("self_attn.v_proj", 0),
        "attn_output": ("self_attn.o_proj", 0),
        "ffn_gate": ("mlp.gate_proj", 0),
        "ffn_up": ("mlp.up_proj", 0),
        "ffn_down": ("mlp.down_proj", 0),
        "attn_norm": ("input_layernorm", 0),
        "ffn_norm": ("post_attention_layernorm", 0),
    }
    state = model.state_dict()
    compared = set()
    for tensor in GGUFReader(gguf_folder() / GGUF_FILE).tensors:
        expected = dequantize(tensor.data, tensor.tensor_type)
        pieces = tensor.name.split(".")
        if pieces[0] == "blk":
            name, heads = parts[pieces[2]]
            expected = _rotary_halves(expected, heads) if heads else expected
            key = f"model.layers.{pieces[1]}.{name}.weight"
        else:
            key = {"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight"}[
                pieces[0]
            ]
        np.testing.assert_array_equal(state[key].numpy(), expected, err_msg=key)
        compared.add(key)
    assert compared == set(state) - {"lm_head.weight"}
    assert state["lm_head.weight"].data_ptr() == state["model.embed_tokens.weight"].data_ptr()


def test_log_probs_are_finite_and_greedy_decoding_makes_sense(model, tokenizer):
    import torch

    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France? Answer in one word."}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )["input_ids"]
    with torch.no_grad():
        log_probs = torch.log_softmax(model(ids).logits, dim=-1)
        reply = model.generate(ids, max_new_tokens=24, do_sample=False)[0, ids.shape[1] :]
    assert torch.isfinite(log_probs).all()
    assert "Paris" in tokenizer.decode(reply)
    assert reply[-1].item() == tokenizer.convert_tokens_to_ids("<|im_end|>")  # stopped by itself


def test_chat_ids_are_those_of_the_published_model(tokenizer):
    """The published tokenizer's ids of its default system prompt and of one user turn."""
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hello"}], add_generation_prompt=True
    )["input_ids"]
    system = [2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712]
    assert ids[:20] == [1, 9690, 198, *system, 8182, 2]
    assert ids[20:] == [198, 1, 4093, 198, 19556, 2, 198, 1, 520, 9531, 198]


def test_special_tokens_end_of_turn_and_digits(tokenizer):
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id) == (1, 2, 0)
    assert tokenizer.pad_token == "<|im_end|>"
    assert sorted(tokenizer.all_special_ids)[:3] == [0, 1, 2]
    assert tokenizer.encode("<|im_end|><|im_start|>") == [2, 1]
    # Every digit stands alone and does not swallow the spaces before it.
    assert tokenizer.tokenize("a  42") == ["a", "ĠĠ", "4", "2"]
    # Decoding keeps the text as it was sampled: no spaces are cleaned away.
    assert tokenizer.decode(tokenizer.encode("Well , it 's ok .")) == "Well , it 's ok ."


def test_saved_tokenizer_gives_the_ids_of_the_stock_conversion(tokenizer):
    """Away from spaces before digits, transformers' own conversion gives the same ids."""
    from transformers.integrations.ggml import convert_gguf_tokenizer

    parsed = read_gguf(gguf_folder() / GGUF_FILE)
    stock, _ = convert_gguf_tokenizer("llama", parsed["tokenizer"])
    text = "Write a 3-line poem: café, naïve — “quotes” & $12,000!\n\n\tdef f(x):\n    return x\n🙂"
    assert tokenizer.encode(text) == stock.encode(text).ids
    assert tokenizer.get_vocab() == stock.get_vocab()
    assert tokenizer.chat_template == parsed["tokenizer_config"]["chat_template"]


def test_the_folder_says_when_to_stop_and_carries_no_quantisation(smollm2_dir):
    generation = json.loads((smollm2_dir / "generation_config.json").read_text())
    assert generation["eos_token_id"] == 2
    config = json.loads((smollm2_dir / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["tie_word_embeddings"] is True
    assert config["dtype"] == "float32"
    assert (config["num_attention_heads"], config["num_key_value_heads"]) == (9, 3)
