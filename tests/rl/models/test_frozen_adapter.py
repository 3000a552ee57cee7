"""A frozen adapter is held against the model: rank, features, and every tensor's shape."""

import json
from types import MappingProxyType

import numpy as np
import pytest
from safetensors.numpy import save_file

from rl.config.errors import ConfigError
from rl.models.frozen_adapter import check_frozen_adapter
from rl.models.inspect import ModelFacts

FACTS = ModelFacts(
    2048, MappingProxyType({"model.layers.0.self_attn.q_proj": (6, 10), "lm_head": (6, 50)})
)
A = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
B = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"
CONFIG = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}
WEIGHTS = {A: (4, 6), B: (10, 4)}


def adapter(folder, config=None, weights=None):
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | (config or {})))
    shapes = WEIGHTS if weights is None else weights
    tensors = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder


def refused(folder, max_rank=8):
    with pytest.raises(ConfigError) as caught:
        check_frozen_adapter(folder, FACTS, max_rank)
    text = str(caught.value)
    assert text.startswith(f"discovery.user_adapter={folder}: ")
    return text.removeprefix(f"discovery.user_adapter={folder}: ")


def test_an_adapter_that_fits(tmp_path):
    check_frozen_adapter(adapter(tmp_path), FACTS, 4)


def test_an_adapter_that_this_project_exports_fits(tmp_path, tiny_dir):
    import torch
    from transformers import AutoModelForCausalLM

    from rl.config.schema import LoraConfig
    from rl.models.inspect import read_model
    from rl.policy.adapter import add_adapter, export_adapter, write_adapter

    base = AutoModelForCausalLM.from_pretrained(tiny_dir)
    targets = ["q_proj", "down_proj", "lm_head"]
    model = add_adapter(base, LoraConfig(rank=8, target_modules=targets), seed=0)
    write_adapter(export_adapter(model, "user@0.0", torch.float32, "tiny"), tmp_path / "a")
    check_frozen_adapter(tmp_path / "a", read_model(str(tiny_dir), "model.source=tiny"), 8)


def test_a_rank_above_the_engine_s(tmp_path):
    told = "its rank r=4; expected 1 to 3, which lora.rank decides"
    assert refused(adapter(tmp_path), max_rank=3) == told


@pytest.mark.parametrize("rank", [0, None, "4"])
def test_a_rank_that_is_none(tmp_path, rank):
    assert refused(adapter(tmp_path, {"r": rank})).startswith(f"its rank r={rank}; ")


@pytest.mark.parametrize(
    "config",
    [
        {"use_dora": True},
        {"bias": "all"},
        {"lora_bias": True},
        {"modules_to_save": ["lm_head"]},
        {"rank_pattern": {"q_proj": 2}},
        {"alpha_pattern": {"q_proj": 2}},
    ],
)
def test_features_that_vllm_lacks_are_named(tmp_path, config):
    (name,) = config
    assert f"vLLM does not serve {name}=" in refused(adapter(tmp_path, config))


def test_another_kind_of_adapter(tmp_path):
    assert "no LoRA adapter" in refused(adapter(tmp_path, {"peft_type": "IA3"}))
    (tmp_path / "adapter_config.json").write_text("[]")
    assert "no LoRA adapter" in refused(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{")
    assert "adapter_config.json cannot be read" in refused(tmp_path)


def test_an_adapter_without_its_scale(tmp_path):
    assert "lora_alpha" in refused(adapter(tmp_path, {"lora_alpha": None}))


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ({A: (4, 7), B: (10, 4)}, f"{A} has shape [4, 7]; the model needs [4, 6]"),
        ({A: (4, 6), B: (12, 4)}, f"{B} has shape [12, 4]; the model needs [10, 4]"),
        ({A: (8, 6), B: (10, 8)}, f"{A} has shape [8, 6]; the model needs [4, 6]"),
        ({A.replace("layers.0", "layers.9"): (4, 6)}, "belongs to no linear layer of the model"),
        ({"base_model.model.lm_head.weight": (50, 6)}, "belongs to no linear layer of the model"),
        ({}, "adapter_model.safetensors holds no LoRA weights"),
    ],
)
def test_weights_of_another_model(tmp_path, weights, told):
    assert told in refused(adapter(tmp_path, weights=weights))


def test_damaged_weights(tmp_path):
    file = adapter(tmp_path) / "adapter_model.safetensors"
    file.write_bytes(b"not a header")
    assert "adapter_model.safetensors cannot be read" in refused(tmp_path)
    file.unlink()
    assert "adapter_model.safetensors cannot be read" in refused(tmp_path)
