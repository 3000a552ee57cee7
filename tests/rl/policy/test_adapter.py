"""Adapters in memory and on disk, on a small model with plain peft."""

import hashlib
import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load

from rl.config.schema import LoraConfig
from rl.policy.adapter import (
    AdapterFiles,
    adapter_digest,
    add_adapter,
    export_adapter,
    import_adapter,
    read_adapter,
    write_adapter,
)


def small_policy(seed=0, dtype=torch.float32, **lora):
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=31,
                hidden_size=32,
                intermediate_size=32,
                num_hidden_layers=1,
                num_attention_heads=1,
                num_key_value_heads=1,
                tie_word_embeddings=False,
            )
        ).to(dtype)
    return add_adapter(model, LoraConfig(**({"rank": 4, "alpha": 8} | lora)), seed)


def randomise(policy, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for parameter in policy.parameters():
        if parameter.requires_grad:
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator))
    return policy


def export(policy, dtype=torch.float32, version="assistant@0.1"):
    return export_adapter(policy, version, dtype, "some/base")


def test_fresh_adapter_changes_nothing_and_follows_its_seed():
    before = torch.random.get_rng_state()
    first, again, other = (load(export(small_policy(seed)).weights) for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), before)
    for name, tensor in first.items():
        assert torch.equal(tensor, again[name])
        assert torch.equal(tensor, other[name]) == ("lora_B" in name)
        assert ("lora_B" in name) == (not tensor.any())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adapter_has_the_models_dtype(dtype):
    trained = [p for p in small_policy(dtype=dtype).parameters() if p.requires_grad]
    assert {p.dtype for p in trained} == {dtype} and len(trained) == 4


def test_exported_weights_come_back_to_the_bit():
    files = export(randomise(small_policy()))
    policy = small_policy(seed=9)
    assert export(policy).digest != files.digest
    import_adapter(policy, files)
    assert export(policy) == files


def test_export_is_the_same_bytes_every_time():
    policy = randomise(small_policy(target_modules=["v_proj", "q_proj", "o_proj"]))
    assert export(policy) == export(policy)
    config = json.loads(export(policy).config)
    assert config["target_modules"] == ["o_proj", "q_proj", "v_proj"]
    assert config["base_model_name_or_path"] == "some/base"
    assert config["inference_mode"] is True


def test_pitfall_02_export_is_what_peft_saves(tmp_path):
    policy = randomise(small_policy())
    policy.save_pretrained(tmp_path)
    saved = load((tmp_path / "adapter_model.safetensors").read_bytes())
    for dtype in (torch.float32, torch.bfloat16):
        ours = load(export(policy, dtype).weights)
        assert ours.keys() == saved.keys()
        assert all(torch.equal(ours[name], saved[name].to(dtype)) for name in saved)


def test_pitfall_02_adapter_on_the_head_comes_without_the_heads_own_weights():
    policy = small_policy(target_modules=["q_proj", "lm_head"])
    names = load(export(policy).weights)
    assert len(names) == 4 and all("lora_" in name for name in names)
    import_adapter(policy, export(randomise(policy)))


def test_digest_covers_both_files_and_where_one_ends():
    files = export(small_policy())
    expected = hashlib.sha256(
        len(files.config).to_bytes(8, "big")
        + files.config
        + len(files.weights).to_bytes(8, "big")
        + files.weights
    ).hexdigest()
    assert files.digest == adapter_digest(files.config, files.weights) == expected
    digests = {adapter_digest(*parts) for parts in ((b"ab", b"c"), (b"a", b"bc"), (b"", b"abc"))}
    assert len(digests) == 3


def test_written_adapter_reads_back_and_is_never_overwritten(tmp_path):
    files = export(randomise(small_policy()))
    folder = tmp_path / "versions" / "assistant@0.1"
    write_adapter(files, folder)
    assert read_adapter(folder, "assistant@0.1") == files
    with pytest.raises(FileExistsError):
        write_adapter(files, folder)


@pytest.mark.parametrize(
    ("lora", "message"),
    [
        ({"rank": 2}, "r is 4, expected 2"),
        ({"alpha": 16}, "lora_alpha is 8, expected 16"),
        ({"target_modules": ["q_proj", "v_proj", "o_proj"]}, r"missing \['base_model.*o_proj"),
        ({"target_modules": ["q_proj"]}, r"unexpected \['base_model.*v_proj"),
    ],
)
def test_adapter_of_another_shape_is_refused(lora, message):
    files = export(small_policy())
    with pytest.raises(ValueError, match=rf"adapter assistant@0\.1 does not fit .*{message}"):
        import_adapter(small_policy(**lora), files)


def test_version_is_no_part_of_the_digest():
    files = AdapterFiles.of("assistant@0.1", b"{}", b"weights")
    assert replace(files, version="assistant@0.2").digest == files.digest
