"""Rule: every number is finite and within its range."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rl.config.errors import ConfigError, wrong
from rl.config.keys import key_values, value_at
from rl.config.schema import Config


@dataclass(frozen=True)
class Range:
    """Allowed values of one number: from ``low`` to ``high``, each end included unless open."""

    low: float
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        return above and (value < self.high if self.high_open else value <= self.high)

    def __str__(self) -> str:
        low = f"greater than {self.low:g}" if self.low_open else f"at least {self.low:g}"
        if self.high == math.inf:
            return low
        return f"{low} and {'less than' if self.high_open else 'at most'} {self.high:g}"


POSITIVE = Range(0, low_open=True)
NOT_NEGATIVE = Range(0)
ONE_OR_MORE = Range(1)
FRACTION = Range(0, 1, low_open=True)

RANGES: Mapping[str, Range] = {
    "run.seed": NOT_NEGATIVE,
    "model.context_tokens": ONE_OR_MORE,
    "lora.rank": Range(1, 512),  # vLLM's largest
    "lora.alpha": ONE_OR_MORE,
    "lora.dropout": Range(0, 1, high_open=True),
    "assistant.temperature": NOT_NEGATIVE,
    "assistant.top_p": FRACTION,
    "assistant.max_tokens": ONE_OR_MORE,
    "user.temperature": NOT_NEGATIVE,
    "user.top_p": FRACTION,
    "user.max_tokens": ONE_OR_MORE,
    "discovery.tangential_probability": Range(0, 1),
    "discovery.length_penalty": NOT_NEGATIVE,
    "discovery.length_free_tokens": NOT_NEGATIVE,
    "discovery.window": NOT_NEGATIVE,
    "discovery.assistant_turns": ONE_OR_MORE,
    "discovery.user_max_words": ONE_OR_MORE,
    "discovery.user_leak_retries": NOT_NEGATIVE,
    "judge.workers": ONE_OR_MORE,
    "judge.cpus": NOT_NEGATIVE,
    "judge.gpus": NOT_NEGATIVE,
    "judge.threads": ONE_OR_MORE,
    "judge.deadline_s": POSITIVE,
    "judge.retries": NOT_NEGATIVE,
    "judge.concurrency": ONE_OR_MORE,
    "judge.max_tokens": ONE_OR_MORE,
    "judge.max_batch": ONE_OR_MORE,
    "judge.cache_entries": NOT_NEGATIVE,
    "grpo.group_size": Range(2),  # one reply has nothing to be compared with
    "grpo.min_group_size": Range(2),
    "grpo.epsilon": POSITIVE,
    "grpo.clip_low": Range(0, 1, low_open=True, high_open=True),
    "grpo.clip_high": POSITIVE,
    "grpo.kl_beta": NOT_NEGATIVE,
    "grpo.updates_per_batch": ONE_OR_MORE,
    "grpo.importance_cap": POSITIVE,
    "grpo.calibration_margin": NOT_NEGATIVE,
    "grpo.fixed_bonus": NOT_NEGATIVE,
    "optimizer.learning_rate": NOT_NEGATIVE,  # 0: the drift test
    "optimizer.weight_decay": NOT_NEGATIVE,
    "optimizer.epsilon": POSITIVE,
    "optimizer.max_grad_norm": POSITIVE,
    "optimizer.warmup_steps": NOT_NEGATIVE,
    "learner.world_size": ONE_OR_MORE,
    "learner.cpus": NOT_NEGATIVE,
    "learner.gpus": NOT_NEGATIVE,
    "learner.threads": ONE_OR_MORE,
    "learner.micro_batch_tokens": ONE_OR_MORE,
    "learner.logprob_chunk_tokens": ONE_OR_MORE,
    "learner.start_deadline_s": POSITIVE,
    "learner.step_deadline_s": POSITIVE,
    "rollout.workers": ONE_OR_MORE,
    "rollout.cpus": NOT_NEGATIVE,
    "rollout.gpus": NOT_NEGATIVE,
    "rollout.threads": ONE_OR_MORE,
    "rollout.kv_cache_gib": POSITIVE,
    "rollout.gpu_memory_utilization": FRACTION,
    "rollout.tensor_parallel": ONE_OR_MORE,
    "rollout.max_loras": ONE_OR_MORE,
    "rollout.max_concurrent_sequences": ONE_OR_MORE,
    "rollout.start_deadline_s": POSITIVE,
    "rollout.request_deadline_s": POSITIVE,
    "rollout.publish_deadline_s": POSITIVE,
    "rollout.probe_tolerance": POSITIVE,
    "simulator.workers": ONE_OR_MORE,
    "simulator.cpus": NOT_NEGATIVE,
    "simulator.concurrent_episodes": ONE_OR_MORE,
    "simulator.episode_deadline_s": POSITIVE,
    "simulator.max_attempts": ONE_OR_MORE,
    "train.steps": ONE_OR_MORE,
    "train.episodes_per_step": ONE_OR_MORE,
    "train.staleness": NOT_NEGATIVE,
    "train.checkpoint_every": ONE_OR_MORE,
    "train.keep_checkpoints": ONE_OR_MORE,
    "train.max_mismatch_kl": POSITIVE,
    "train.max_failed_episodes": ONE_OR_MORE,
    "cluster.connect_deadline_s": POSITIVE,
    "cluster.placement_deadline_s": POSITIVE,
}


def check_finite(config: Config) -> Iterator[ConfigError]:
    """Yield an error for each number that is NaN or infinite, list elements included."""
    for key, value in key_values(config):
        numbers = value if isinstance(value, list) else [value]
        if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
            yield wrong(key.name, value, "expected a finite number")


def check_ranges(config: Config) -> Iterator[ConfigError]:
    """Yield an error for each key of :data:`RANGES` whose value lies outside."""
    for name, allowed in RANGES.items():
        value = value_at(config, name)
        if value not in allowed:
            yield wrong(name, value, f"expected {allowed}")
    for seat in ("assistant", "user"):
        top_k = value_at(config, f"{seat}.top_k")
        if top_k != -1 and top_k < 1:
            yield wrong(f"{seat}.top_k", top_k, "expected -1 (off) or at least 1")
