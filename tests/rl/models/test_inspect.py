"""What is read off a model's files, and the one line that a damaged or absent model gives."""

import json

import pytest

from rl.config.schema import ModelConfig
from rl.models.errors import ModelError
from rl.models.inspect import model_key, read_model, read_tokenizer

SHOWN = "model.path=somewhere"


def refused(read, name):
    with pytest.raises(ModelError) as caught:
        read(name, SHOWN)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{SHOWN}: the ")
    return text.removeprefix(f"{SHOWN}: the ")


def test_the_tiny_model_s_facts(tiny_dir):
    facts = read_model(str(tiny_dir), SHOWN)
    assert facts.context_limit == 2048
    # Two layers of seven, and the head; widths 64 and 128, 2 heads of 32, 49,152 tokens.
    assert len(facts.linear_layers) == 2 * 7 + 1
    assert facts.linear_layers["model.layers.1.mlp.down_proj"] == (128, 64)
    assert facts.linear_layers["model.layers.0.self_attn.q_proj"] == (64, 64)
    assert facts.linear_layers["lm_head"] == (64, 49152)
    assert facts.layer_names() == [
        "down_proj", "gate_proj", "k_proj", "lm_head", "o_proj", "q_proj", "up_proj", "v_proj",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rope", "limit"),
    [
        ({"rope_type": "default"}, 2048),
        ({"rope_type": "linear", "factor": 4.0}, 8192),
        ({"rope_type": "dynamic", "factor": 2.0}, 4096),
        # yarn: max_position_embeddings is the stretched length already
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}, 2048),
    ],
)
def test_rotary_scaling_stretches_the_limit_as_in_vllm(variant, rope, limit):
    name = variant({"rope_parameters": {"rope_theta": 10000.0, **rope}})
    assert read_model(name, SHOWN).context_limit == limit


def written(variant, **config):
    return variant(files={"config.json": json.dumps(config)})


def test_a_model_without_positions_has_no_limit(variant):
    name = written(variant, model_type="mamba", hidden_size=16, num_hidden_layers=1, vocab_size=32)
    facts = read_model(name, SHOWN)
    assert facts.context_limit is None
    assert "backbone.layers.0.mixer.in_proj" in facts.linear_layers


def test_gpt2_s_linear_layers_count_with_inputs_first(variant):
    name = written(variant, model_type="gpt2", n_embd=8, n_head=2, n_layer=1, n_positions=64)
    facts = read_model(name, SHOWN)
    assert facts.context_limit == 64
    assert facts.linear_layers["transformer.h.0.attn.c_attn"] == (8, 24)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not a valid JSON file"),
        ("{}", "model_type"),
        ("[]", "TypeError"),
        ('{"model_type": "no_such_model"}', "no_such_model"),
        ('{"model_type": "llama", "hidden_size": "x"}', "'hidden_size': TypeError"),
        ('{"model_type": "llama", "num_attention_heads": 0}', "ZeroDivisionError"),
    ],
)
def test_a_damaged_configuration_is_one_line(variant, text, told):
    said = refused(read_model, variant(files={"config.json": text}))
    assert said.startswith("configuration cannot be read: ")
    assert told in said


@pytest.mark.parametrize(
    ("config", "told"), [({"hidden_act": "nope"}, "'nope'"), ({"hidden_size": -4}, "negative")]
)
def test_a_model_that_cannot_be_built(variant, config, told):
    said = refused(read_model, variant(config))
    assert said.startswith("model cannot be read: ")
    assert told in said


def test_a_model_that_generates_no_text(variant):
    said = refused(read_model, variant(files={"config.json": '{"model_type": "vit"}'}))
    assert "ViTConfig" in said


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("tokenizer.json", "{"),
        ("tokenizer.json", "{}"),
        ("tokenizer.json", '{"added_tokens": [], "model": {"type": "none"}}'),
        ("tokenizer_config.json", "{"),
        ("tokenizer_config.json", "[]"),
    ],
)
def test_a_damaged_tokenizer_is_one_line(variant, file, text):
    said = refused(read_tokenizer, variant(files={file: text}))
    assert said.startswith("tokenizer cannot be read: ")


@pytest.mark.parametrize("read", [read_model, read_tokenizer])
def test_a_hub_id_that_cannot_be_reached_is_one_line(read):
    assert "cannot be read: " in refused(read, "owner/no-such-model-anywhere")


def test_how_messages_name_the_model():
    assert model_key(ModelConfig(source="tiny")) == "model.source=tiny"
    assert model_key(ModelConfig(source="path", path="a/b")) == "model.path=a/b"
