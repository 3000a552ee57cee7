"""The small batch that the learner's tests train on."""

import random
from collections.abc import Sequence
from dataclasses import replace

from rl.grpo.batch import TrainingBatch, TrainingSample
from rl.grpo.batch_diagnostics import diagnose

VOCABULARY = 49_152


def random_samples(count: int, seed: int = 0) -> tuple[TrainingSample, ...]:
    """Samples of 11 to 45 tokens with one trained span each; behaviour log-probs come later."""
    draw = random.Random(seed)
    samples = []
    for index in range(count):
        prompt, reply, rest = draw.randint(8, 30), draw.randint(3, 10), draw.randint(0, 5)
        length = prompt + reply + rest
        samples.append(
            TrainingSample(
                ids=tuple(draw.randrange(VOCABULARY) for _ in range(length)),
                mask=(0,) * prompt + (1,) * reply + (0,) * rest,
                behaviour_logprobs=(0.0,) * length,
                advantage=draw.uniform(0.5, 1.5) * (-1) ** index,
                reward=0.0,
                episode="0-task",
                group="g",
                candidate=index,
                version="assistant@0.0",
            )
        )
    return tuple(samples)


def sampled_by_another(
    sample: TrainingSample, logprobs: Sequence[float], draw: random.Random
) -> TrainingSample:
    """Return ``sample`` as a sampler left it whose log-probs differ from the policy's."""
    values = iter(logprobs)
    behaviour = [next(values) + draw.gauss(0, 0.5) if m else 0.0 for m in sample.mask]
    return replace(sample, behaviour_logprobs=tuple(behaviour))


def batch_of(samples: Sequence[TrainingSample]) -> TrainingBatch:
    """A batch of ``samples`` as they are."""
    nothing = diagnose([], generated_tokens=0, trained_tokens=0)
    return TrainingBatch(tuple(samples), nothing)
