"""Rule: keys that name one of a few things name one that exists."""

from collections.abc import Iterator, Mapping

from rl.config.errors import ConfigError, wrong
from rl.config.keys import value_at
from rl.config.schema import Config

CHOICES: Mapping[str, tuple[object, ...]] = {
    "run.wandb_mode": ("offline", "online", "disabled"),
    "model.source": ("package", "tiny", "path"),
    "discovery.gating": ("strict", "cascade"),
    "discovery.focus": ("all", "single_root"),
    "discovery.reward": ("count", "half_credit"),
    "discovery.horizon": ("turn", "window"),
    "discovery.user_turn": ("vllm", "scripted"),
    "discovery.commit": ("sample", "best"),
    "judge.backend": ("embedded", "cues", "llm"),
    "grpo.normalise": ("std", "mean"),
    "grpo.aggregation": ("token_mean", "sequence_mean"),
    "grpo.calibration": ("quality_only", "fixed_bonus", "calibrated"),
    "optimizer.schedule": ("cosine", "constant"),
    "learner.dtype": ("float32", "bfloat16", "float64"),
    "learner.backend": ("gloo", "nccl"),
    "learner.zero_stage": (0, 1, 2, 3),
    "rollout.dtype": ("float32", "bfloat16", "float16"),
    "train.seat": ("assistant",),
    "cluster.placement_strategy": ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"),
}


def check_choices(config: Config) -> Iterator[ConfigError]:
    """Yield an error for each key of :data:`CHOICES` with another value."""
    for name, allowed in CHOICES.items():
        value = value_at(config, name)
        if value not in allowed:
            names = ", ".join(map(str, allowed))
            yield wrong(name, value, f"expected {'one of ' * (len(allowed) > 1)}{names}")
