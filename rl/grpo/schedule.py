"""The learning rate as a pure function of the update: a resumed run needs no state for it."""

import math

from rl.config.schema import OptimizerConfig


def learning_rate(update: int, total_updates: int, config: OptimizerConfig) -> float:
    """Return the rate of the ``update``-th optimiser update (from 0) of ``total_updates``.

    Linear warm-up over ``warmup_steps`` updates, then constant or a cosine from the full rate
    towards 0, which is reached one update after the last.
    """
    if update < config.warmup_steps:
        return config.learning_rate * (update + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.learning_rate
    span = max(1, total_updates - config.warmup_steps)
    done = min(1.0, (update - config.warmup_steps) / span)
    return config.learning_rate * 0.5 * (1.0 + math.cos(math.pi * done))
