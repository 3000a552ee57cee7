"""The adapter that leaves the learner: peft's own format, the learner's own log-probs."""

import json

import pytest
import torch
from learner_reference import token_logprobs
from learner_scenarios import ALPHA, MODULES, PROBE, RANK, STAGES
from safetensors.torch import load, load_file

from rl.policy.adapter import read_adapter, write_adapter

pytestmark = pytest.mark.stack

FLOAT32 = 1e-4


def load_with_peft(files, folder):
    """Nothing of ours: the folder names its base model, and peft does the rest."""
    from peft import AutoPeftModelForCausalLM

    write_adapter(files, folder)
    return AutoPeftModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.mark.parametrize(("world", "stage"), [("alone", 0), ("alone", 2), ("pair", 3)])
def test_saved_adapter_in_plain_peft_gives_the_learners_logprobs(
    request, world, stage, policy_samples, tmp_path
):
    ours = request.getfixturevalue(world)[f"float32 zero {stage}"]
    policy = load_with_peft(ours["export"], tmp_path / "adapter")
    moved = 0.0
    with torch.no_grad():
        for sample, after, before in zip(
            policy_samples, ours["logprobs_after"], ours["logprobs"], strict=True
        ):
            expected = token_logprobs(policy, sample)
            torch.testing.assert_close(torch.tensor(after), expected, rtol=0, atol=FLOAT32)
            moved = max(moved, (expected - torch.tensor(before)).abs().max().item())
    assert moved > 0.1


@pytest.mark.parametrize("stage", [0, 3])
def test_canary_in_plain_peft_gives_the_learners_logprobs(pair, stage, tmp_path):
    ours = pair[f"float32 zero {stage}"]
    files, logprobs = ours["canary"]
    policy = load_with_peft(files, tmp_path / "canary")
    with torch.no_grad():
        logits = policy(input_ids=torch.tensor([PROBE])).logits[0, :-1]
    expected = logits.log_softmax(-1).gather(-1, torch.tensor(PROBE[1:])[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(logprobs), expected, rtol=0, atol=FLOAT32)
    gap = max(abs(a - b) for a, b in zip(logprobs, ours["probe"], strict=True))
    assert gap > 0.1  # visible, or a sampler that never got it would pass


@pytest.mark.parametrize("world", ["alone", "pair"])
@pytest.mark.parametrize("stage", STAGES)
def test_canary_leaves_no_trace(request, world, stage):
    ours = request.getfixturevalue(world)[f"float32 zero {stage}"]
    assert ours["export_after_canary"] == ours["export"]
    assert ours["canary"][0].weights != ours["export"].weights


@pytest.mark.parametrize("world", ["alone", "pair"])
@pytest.mark.parametrize("stage", STAGES)
def test_pitfall_02_names_and_values_are_what_peft_saved(request, world, stage, start_adapter_dir):
    """An adapter that plain peft wrote goes in and comes out unchanged to the bit."""
    saved = load_file(start_adapter_dir / "adapter_model.safetensors")
    exported = load(request.getfixturevalue(world)[f"float32 zero {stage}"]["start"].weights)
    assert exported.keys() == saved.keys()
    for name, tensor in saved.items():
        assert exported[name].dtype == torch.float32
        assert torch.equal(exported[name], tensor), name


@pytest.mark.parametrize("stage", [0, 2])
def test_pitfall_02_dtype_is_the_learners(alone, stage, start_adapter_dir):
    saved = load_file(start_adapter_dir / "adapter_model.safetensors")
    exported = load(alone[f"bfloat16 zero {stage}"]["start"].weights)
    for name, tensor in saved.items():
        assert torch.equal(exported[name], tensor.bfloat16()), name


def test_pitfall_02_configuration_is_pefts(alone, tiny_dir, tmp_path):
    from peft import LoraConfig, PeftConfig

    files = alone["float32 zero 0"]["export"]
    write_adapter(files, tmp_path / "adapter")
    config = PeftConfig.from_pretrained(tmp_path / "adapter")
    assert isinstance(config, LoraConfig)
    assert (config.r, config.lora_alpha, config.target_modules) == (RANK, ALPHA, set(MODULES))
    assert config.base_model_name_or_path == str(tiny_dir)
    assert json.loads(files.config)["peft_type"] == "LORA"
    assert read_adapter(tmp_path / "adapter", files.version) == files
