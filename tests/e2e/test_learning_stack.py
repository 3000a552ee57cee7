"""The policy learns what is rewarded, and stands still when it should: real vLLM and DeepSpeed."""

from collections.abc import Callable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import pytest
import ray
from safetensors.torch import load_file

from actors.learner.group import TrainReport
from rl.config.schema import Config
from rl.episode.outcome import EpisodeEnd
from rl.episode.records import Candidate, Episode, EpisodeId, Group
from rl.episode.tokens import TokenTreeBuilder
from rl.grpo.batch import TrainingBatch, build_training_batch
from rl.sampling import SampleRequest, SampleResult
from rl.seeding import derive_seed
from tests.stack_fixtures import fresh_version

pytestmark = pytest.mark.stack

Reward = Callable[[Sequence[int]], float]

PROMPTS = tuple(tuple(range(300 + 20 * i, 316 + 20 * i)) for i in range(4))
PROBE = tuple(range(100, 112))
TOKENS = 12
TEMPERATURE = 0.1  # the crew's: learner and sampler must use the same


def sample_groups(crew: Any, step: int, size: int) -> list[SampleResult]:
    calls = [
        crew.rollouts[0].sample.remote(
            SampleRequest(
                seat="assistant",
                prompt_ids=prompt,
                seeds=tuple(derive_seed(step, index, k) for k in range(size)),
                max_tokens=TOKENS,
                temperature=TEMPERATURE,
            )
        )
        for index, prompt in enumerate(PROMPTS)
    ]
    return ray.get(calls, timeout=120)


def as_episode(
    order: int,
    prompt: Sequence[int],
    result: SampleResult,
    reward: Callable[[Sequence[int]], float],
) -> Episode:
    """One dialogue of one turn: a group whose reward is a function of the sampled ids."""
    builder = TokenTreeBuilder()
    root = builder.add(None, tuple(prompt))
    candidates = []
    for completion in result.completions:
        assert result.version is not None
        span = builder.add_sampled(root, completion.ids, completion.logprobs, result.version)
        candidates.append(
            Candidate(
                span,
                "",
                len(completion.ids),
                completion.finish,
                result.version,
                reward=reward(completion.ids),
            )
        )
    group = Group(f"{order}/0", 0, tuple(candidates), 0)
    return Episode(
        EpisodeId(0, f"task-{order}", order),
        "assistant",
        "test",
        EpisodeEnd.TURN_LIMIT,
        builder.build(),
        (group,),
    )


def one_step(
    crew: Any, config: Config, step: int, reward: Reward, size: int = 8, update: int = 0
) -> tuple[TrainReport | None, TrainingBatch]:
    results = sample_groups(crew, step, size)
    episodes = [
        as_episode(step * len(PROMPTS) + i, prompt, result, reward)
        for i, (prompt, result) in enumerate(zip(PROMPTS, results, strict=True))
    ]
    batch = build_training_batch(episodes, config.grpo)
    if not batch.samples:
        return None, batch
    calls = crew.learner.train(batch, update)
    return crew.learner.report(ray.get(calls, timeout=300)), batch


def largest_gap(crew: Any, batch: TrainingBatch) -> float:
    """Return the largest difference between sampler and learner over the batch's tokens."""
    samples = batch.samples
    [logprobs] = ray.get([rank.logprobs.remote(samples) for rank in crew.ranks], timeout=120)
    gaps = [
        abs(ours - theirs)
        for sample, values in zip(samples, logprobs, strict=True)
        for ours, theirs in zip(
            values, compress(sample.behaviour_logprobs, sample.mask), strict=True
        )
    ]
    assert len(gaps) == batch.trained_tokens
    return max(gaps)


def publisher(crew: Any) -> Any:
    from actors.trainer.publish import Publisher

    return Publisher(crew.learner, crew.rollouts, PROBE, 1e-3, 120.0)


def test_thirty_steps_raise_an_obvious_reward(
    crew: Any, crew_config: Config, tiny_dir: Path
) -> None:
    """The share of tokens from one half of the vocabulary starts near 1/2 and climbs.

    The half is one that the model can tell apart: a coordinate of the embedding is positive.
    """
    embedding = load_file(tiny_dir / "model.safetensors")["model.embed_tokens.weight"]
    wanted = (embedding[:, 0] > 0).tolist()

    def share(ids: Sequence[int]) -> float:
        return sum(wanted[token] for token in ids) / len(ids)

    publish = publisher(crew)
    publish.publish(fresh_version())
    means = []
    for step in range(30):
        report, batch = one_step(crew, crew_config, step, share)
        publish.publish(fresh_version())
        assert batch.diagnostics.reward_mean is not None
        means.append(batch.diagnostics.reward_mean)
        if report is not None:
            assert report.metrics["mismatch_kl"] < 1e-6
    first, last = means[0], sum(means[-5:]) / 5
    assert first == pytest.approx(0.5, abs=0.2)
    assert last > first + 0.2, means


def test_pitfall_09_at_learning_rate_zero_nothing_drifts(crew: Any, crew_config: Config) -> None:
    """Past its end the crew's cosine schedule is at 0: three updates and publishes move nothing."""
    publish = publisher(crew)
    before = publish.publish(fresh_version())
    for step in range(100, 103):
        report, batch = one_step(crew, crew_config, step, lambda ids: ids[0] % 7, update=10**6)
        assert report is not None
        assert report.learning_rate == 0.0
        assert report.grad_norm is not None and report.grad_norm > 0
        assert report.metrics["mismatch_kl"] < 1e-8
        assert largest_gap(crew, batch) < 1e-3
        published = publish.publish(fresh_version())
        assert published.probe_difference < 1e-4
        assert published.files.weights == before.files.weights
