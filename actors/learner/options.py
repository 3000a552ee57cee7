"""What a learner rank needs to start, and DeepSpeed's configuration made from it."""

from dataclasses import dataclass
from typing import Any

import torch

from rl.config.schema import Config, GrpoConfig, LearnerConfig, LoraConfig, OptimizerConfig
from rl.seeding import derive_seed

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


@dataclass(frozen=True)
class LearnerOptions:
    """A learner's settings; the same for every rank of a group."""

    model: str
    seat: str
    temperature: float
    total_updates: int
    seed: int
    lora: LoraConfig
    grpo: GrpoConfig
    optimizer: OptimizerConfig
    learner: LearnerConfig

    @classmethod
    def from_config(cls, config: Config, model: str) -> "LearnerOptions":
        """Take the settings from ``config``; ``model`` is a local folder or a hub id.

        The learner scores tokens at the temperature that the trained seat samples with.
        """
        sampling = config.assistant if config.train.seat == "assistant" else config.user
        return cls(
            model=model,
            seat=config.train.seat,
            temperature=sampling.temperature,
            total_updates=config.train.steps * config.grpo.updates_per_batch,
            seed=derive_seed(config.run.seed, "adapter") % 2**31,
            lora=config.lora,
            grpo=config.grpo,
            optimizer=config.optimizer,
            learner=config.learner,
        )

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of weights and activations."""
        return _DTYPES[self.learner.dtype]

    @property
    def export_dtype(self) -> torch.dtype:
        """The dtype of published adapters; float64 exists for tests and is published as float32."""
        return torch.float32 if self.dtype is torch.float64 else self.dtype

    @property
    def device(self) -> str:
        """The torch device of a rank."""
        return "cuda" if self.learner.gpus else "cpu"


def clips_itself(options: LearnerOptions) -> bool:
    """Return whether the engine clips gradients, since DeepSpeed would hide their norm."""
    return options.learner.zero_stage == 0 and options.learner.dtype != "bfloat16"


def deepspeed_config(options: LearnerOptions) -> dict[str, Any]:
    """Return DeepSpeed's configuration.

    ``managed_gradient_accumulation`` is off: a step takes as many micro-batches as the batch has,
    and the loss already carries the batch's global token count.
    """
    learner = options.learner
    bfloat16 = learner.dtype == "bfloat16"
    # A sum of many micro-batches loses its small terms in bfloat16; below stage 2 DeepSpeed has no
    # such choice.
    precise_sums = {"data_types": {"grad_accum_dtype": "fp32"}}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,
        "gradient_clipping": 0.0 if clips_itself(options) else options.optimizer.max_grad_norm,
        "zero_optimization": {
            "stage": learner.zero_stage,
            "overlap_comm": False,
            "stage3_param_persistence_threshold": 0,
        },
        "bf16": {"enabled": bfloat16},
        **(precise_sums if bfloat16 and learner.zero_stage >= 2 else {}),
        "zero_force_ds_cpu_optimizer": False,
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 2**31,
    }
