"""What may change when a run is continued, and what its folder then says it ran with."""

import copy
from collections.abc import Mapping
from pathlib import Path

from rl.config.schema import Config

# Key, or pattern with a star, → why changing it leaves the run what it is. Every other key decides
# what is learned, from what, or the shape of what a checkpoint holds.
RESUME_KEYS: Mapping[str, str] = {
    "cluster.*": "where it runs",
    "*.deadline_s": "how long to wait",
    "*_deadline_s": "how long to wait",
    "train.steps": "how far it goes; schedules stretch to the new end",
    "train.checkpoint_every": "how often it is saved",
    "train.keep_checkpoints": "how many saves are kept",
    "train.max_failed_episodes": "when it gives up",
    "judge.endpoint": "where the same model is asked",
    "judge.key_name": "where its key stands",
    "judge.retries": "how long to wait",
    "judge.concurrency": "how many at once",
    "run.wandb_mode": "where its log goes",
    "run.wandb_project": "where its log goes",
    "learner.micro_batch_tokens": "memory of a pass; sums differ by rounding only",
    "learner.logprob_chunk_tokens": "memory of a pass; sums differ by rounding only",
    "learner.gradient_checkpointing": "memory of a pass",
    "rollout.kv_cache_gib": "memory of a worker",
    "rollout.dense_adapters": "speed; log-probs differ by rounding only",
    "rollout.single_process": "speed",
    "rollout.gpu_memory_utilization": "memory of a worker",
    "rollout.max_concurrent_sequences": "memory of a worker",
}


def may_change_on_resume(name: str) -> bool:
    """Return whether the key ``name`` may be given beside ``run.resume``."""
    return any(_matches(name, pattern) for pattern in RESUME_KEYS)


def recorded_config(config: Config) -> Config:
    """Return what a run's folder records: a continued run's ``config`` under its own folder.

    ``config`` as :func:`rl.config.load.load_config` gives it, so that the next ``run.resume`` goes
    on with what was changed. A run that is not continued is recorded as it is.
    """
    if not config.run.resume:
        return config
    recorded = copy.deepcopy(config)
    recorded.run.dir = str(Path(config.run.resume).absolute())
    recorded.run.resume = ""
    return recorded


def _matches(name: str, pattern: str) -> bool:
    start, star, end = pattern.partition("*")
    return name == pattern if not star else name.startswith(start) and name.endswith(end)
