"""What a rank is told, and what DeepSpeed is told."""

import pytest
import torch

from actors.learner.options import LearnerOptions, clips_itself, deepspeed_config
from rl.config.schema import Config


def options(**changes):
    config = Config()
    for name, value in changes.items():
        section, key = name.split("__")
        setattr(getattr(config, section), key, value)
    return LearnerOptions.from_config(config, "model")


@pytest.mark.parametrize(("seat", "temperature"), [("assistant", 0.8), ("user", 0.6)])
def test_pitfall_06_temperature_is_the_trained_seats(seat, temperature):
    made = options(train__seat=seat, assistant__temperature=0.8, user__temperature=0.6)
    assert made.temperature == temperature


def test_updates_of_the_whole_run():
    assert options(train__steps=5, grpo__updates_per_batch=3).total_updates == 15


@pytest.mark.parametrize(
    ("name", "dtype", "published"),
    [
        ("float32", torch.float32, torch.float32),
        ("bfloat16", torch.bfloat16, torch.bfloat16),
        ("float64", torch.float64, torch.float32),
    ],
)
def test_dtypes(name, dtype, published):
    made = options(learner__dtype=name)
    assert (made.dtype, made.export_dtype) == (dtype, published)


def test_device_is_a_gpu_when_a_rank_has_one():
    assert options().device == "cpu"
    assert options(learner__gpus=0.5).device == "cuda"


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_are_cut_once(stage, dtype):
    made = options(learner__zero_stage=stage, learner__dtype=dtype, optimizer__max_grad_norm=0.7)
    told = deepspeed_config(made)["gradient_clipping"]
    assert told == (0.0 if clips_itself(made) else 0.7)


def test_bfloat16_gradients_are_summed_in_float32_where_deepspeed_can():
    for stage in (2, 3):
        made = options(learner__zero_stage=stage, learner__dtype="bfloat16")
        assert deepspeed_config(made)["data_types"] == {"grad_accum_dtype": "fp32"}
    assert "data_types" not in deepspeed_config(options(learner__dtype="float32"))


def test_seed_of_a_fresh_adapter_follows_the_run():
    seeds = {options(run__seed=seed).seed for seed in (0, 1, 0)}
    assert len(seeds) == 2
