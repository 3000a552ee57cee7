"""The tiny model: seeded, tied, with the tokenizer of SmolLM2."""

import pytest


def test_shape_tokenizer_and_tied_embeddings(tiny_dir, smollm2_dir):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny_dir)
    config = model.config
    assert (config.num_hidden_layers, config.hidden_size, config.intermediate_size) == (2, 64, 128)
    assert (config.num_attention_heads, config.head_dim) == (2, 32)
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    # 49,152 × 64 embeddings; a layer: 4 × 64² attention + 3 × 64 × 128 MLP + 2 × 64 norms; a norm.
    assert model.num_parameters() == 49152 * 64 + 2 * (4 * 64**2 + 3 * 64 * 128 + 2 * 64) + 64
    tiny, full = (AutoTokenizer.from_pretrained(folder) for folder in (tiny_dir, smollm2_dir))
    assert tiny.get_vocab() == full.get_vocab()
    chat = [{"role": "user", "content": "Hi"}]
    assert tiny.apply_chat_template(chat) == full.apply_chat_template(chat)
    assert tiny.model_max_length == 2048


def test_rebuilding_gives_the_same_weights_and_keeps_the_callers_random_state(
    tiny_dir, tmp_path, monkeypatch
):
    import torch
    from safetensors.torch import load_file

    from rl.models.tiny import prepare_tiny

    monkeypatch.setenv("DISCERN_CACHE", str(tmp_path))
    torch.manual_seed(7)
    before = torch.get_rng_state()
    rebuilt = prepare_tiny()
    assert torch.equal(torch.get_rng_state(), before)
    assert rebuilt != tiny_dir
    first, second = (load_file(folder / "model.safetensors") for folder in (tiny_dir, rebuilt))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_log_probs_are_far_from_uniform(tiny_dir):
    """A wrong adapter or mask must show, so the model may not be indifferent between tokens."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_dir)
    with torch.no_grad():
        log_probs = torch.log_softmax(model(torch.arange(2, 66).view(1, -1)).logits, dim=-1)
    assert torch.isfinite(log_probs).all()
    assert log_probs.std(dim=-1).mean().item() == pytest.approx(0.8, abs=0.2)
