"""A configuration is held against its model before any actor starts, with one clear line."""

import json
import time

import pytest

from rl.config.errors import ConfigError
from rl.config.load import load_config
from rl.models.errors import ModelError
from rl.models.preflight import check_model

# Templates in the manner of ChatML: a whole one, one that refuses a system message, one that hides
# what the user said, and one whose replies end without a control token.
TURN = "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
END = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
LOOP = "{% for m in messages %}" + TURN + "{% endfor %}" + END
REFUSES = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
OPAQUE = LOOP.replace("{{ m['content'] }}", "{{ m['content'] | length }}")
ENDLESS = LOOP.replace("<|im_end|>", "END")


def check(model, *arguments, max_rank=8):
    return check_model(load_config(["model=tiny", *arguments]), str(model), max_rank)


def refused(kind, model, *arguments, **options):
    with pytest.raises(kind) as caught:
        check(model, *arguments, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.fixture
def with_template(variant):
    def make(template):
        return variant(files={"chat_template.jinja": template})

    return make


def test_the_default_fits_and_its_tokenizer_comes_back(tiny_dir):
    tokenizer = check(tiny_dir)
    started = time.monotonic()
    assert tokenizer.decode(check(tiny_dir)("Hello").input_ids) == "Hello"
    assert time.monotonic() - started < 20  # about a second alone; others may use the machine


def test_a_context_beyond_the_model_s(tiny_dir):
    check(tiny_dir, "model.context_tokens=2048")
    text = refused(ConfigError, tiny_dir, "model.context_tokens=2049")
    assert text == "model.context_tokens=2049: expected at most 2048, the model's own"


def test_target_modules_that_the_model_lacks(tiny_dir):
    check(tiny_dir, "lora.target_modules=[self_attn.q_proj,lm_head,down_proj]")
    text = refused(ConfigError, tiny_dir, "lora.target_modules=[q_proj,c_attn]")
    assert text == (
        "lora.target_modules=[q_proj,c_attn]: the model has no linear layer c_attn; it has "
        "down_proj, gate_proj, k_proj, lm_head, o_proj, q_proj, up_proj, v_proj"
    )
    for name in ("proj", "self_attn", "embed_tokens"):  # a part of a name, a block, no linear layer
        assert f"no linear layer {name};" in refused(
            ConfigError, tiny_dir, f"lora.target_modules=[{name}]"
        )


def test_a_user_adapter_is_held_against_the_model(tiny_dir, tmp_path):
    config = {"peft_type": "LORA", "r": 16, "lora_alpha": 16}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    argument = f"discovery.user_adapter={tmp_path}"
    text = refused(ConfigError, tiny_dir, argument, max_rank=8)
    assert text.startswith(f"{argument}: its rank r=16; expected 1 to 8")


def test_a_template_that_hides_the_user(with_template):
    text = refused(ModelError, with_template(OPAQUE))
    assert text.startswith("model.source=tiny: chat template of ")
    assert "left out, repeated or changed" in text


def test_a_template_whose_replies_do_not_end(with_template):
    text = refused(ModelError, with_template(ENDLESS))
    assert "ends without a control token" in text


def test_a_system_prompt_for_a_template_that_takes_none(with_template):
    model = with_template(REFUSES + LOOP)
    check(model, "discovery.user_turn=scripted")
    prompt = ["discovery.user_turn=scripted", "model.system_prompt=Be brief."]
    text = refused(ConfigError, model, *prompt)
    assert text.startswith("model.system_prompt=Be brief.: expected none: ")
    text = refused(ConfigError, model)
    assert text.startswith("discovery.user_turn=vllm: expected scripted: ")


def test_a_whole_template_of_another_kind(with_template):
    check(with_template(LOOP), "model.system_prompt=Be brief.")
