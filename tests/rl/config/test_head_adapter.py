"""An adapter on the output head and ZeRO 3 do not go together on several ranks."""

import pytest

from rl.config.errors import ConfigError
from rl.config.schema import Config
from rl.config.validate import validate


def config(targets, stage, world_size):
    made = Config()
    made.lora.target_modules = targets
    made.learner.zero_stage, made.learner.world_size = stage, world_size
    return made


@pytest.mark.parametrize("targets", [["q_proj", "lm_head"], ["model.lm_head"]])
def test_head_adapter_under_zero_3_on_two_ranks_is_refused(targets):
    with pytest.raises(ConfigError, match=r"lora\.target_modules.*lm_head.*zero_stage=3.*=2"):
        validate(config(targets, 3, 2))


@pytest.mark.parametrize(
    ("targets", "stage", "world_size"),
    [(["lm_head"], 3, 1), (["lm_head"], 2, 2), (["q_proj", "my_lm_head"], 3, 2)],
)
def test_every_other_combination_is_allowed(targets, stage, world_size):
    validate(config(targets, stage, world_size))
