"""The rollout worker on real vLLM: versions, log-probs, arrival checks."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rl.config.schema import Config
from rl.policy.adapter import AdapterFiles
from rl.policy.version import AdapterVersion
from rl.sampling import SampleRequest, SamplingError
from tests.stack_fixtures import fresh_version

pytestmark = pytest.mark.stack

PROBE = tuple(range(100, 112))
PROMPT = tuple(range(200, 260))


def publisher(crew: Any, config: Config, tolerance: float = 1e-3) -> Any:
    from actors.trainer.publish import Publisher

    return Publisher(crew.learner, crew.rollouts, PROBE, tolerance, 120.0)


def sample(crew: Any, seeds: Sequence[int] = (1, 2, 3, 4), **changes: Any) -> Any:
    import ray

    wanted = {"seat": "assistant", "prompt_ids": PROMPT, "max_tokens": 12, "temperature": 1.0}
    request = SampleRequest(seeds=tuple(seeds), **(wanted | changes))
    return ray.get(crew.rollouts[0].sample.remote(request), timeout=120)


def reference_logprobs(
    files: AdapterFiles | None, model_dir: Path, ids: Sequence[int], start: int, temperature: float
) -> torch.Tensor:
    """Log-probs of ``ids[start:]`` by plain transformers and peft, from the published files."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    if files is not None:
        import tempfile

        from rl.policy.adapter import write_adapter

        folder = Path(tempfile.mkdtemp()) / "adapter"
        write_adapter(files, folder)
        model = PeftModel.from_pretrained(model, folder)
    with torch.no_grad():
        logits = model(torch.tensor([list(ids)])).logits[0].double() / temperature
    rows = torch.arange(start - 1, len(ids) - 1)
    return logits.log_softmax(-1)[rows, torch.tensor(ids[start:])]


def canary(crew: Any, version: AdapterVersion, seed: int) -> AdapterFiles:
    import ray

    files, _ = crew.learner.canary(str(version), seed, PROBE)
    ray.get(crew.rollouts[0].load_adapter.remote(files, PROBE), timeout=120)
    return files


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_pitfall_06_sampled_logprobs_are_those_of_the_sampled_distribution(
    crew: Any, tiny_dir: Path, temperature: float
) -> None:
    version = fresh_version()
    files = canary(crew, version, seed=3)
    result = sample(crew, adapter=str(version), temperature=temperature)
    assert result.version == str(version)
    for completion in result.completions:
        expected = reference_logprobs(
            files, tiny_dir, PROMPT + completion.ids, len(PROMPT), temperature
        )
        difference = (torch.tensor(completion.logprobs).double() - expected).abs().max()
        assert float(difference) < 1e-3


def test_pitfall_03_versions_live_side_by_side_and_never_mix(crew: Any) -> None:
    """Two versions and the base give different log-probs for the same prompt, in any order."""
    first, second = fresh_version(), fresh_version()
    canary(crew, first, seed=1)
    canary(crew, second, seed=2)
    order = [str(first), str(second), None, str(first), str(second), None]
    seen: dict[str | None, Any] = {}
    for name in order:
        result = sample(crew, seeds=(5,), adapter=name)
        assert result.version == name
        if name in seen:
            assert result.completions[0].ids == seen[name].ids
            assert result.completions[0].logprobs == pytest.approx(seen[name].logprobs, abs=1e-4)
        seen[name] = result.completions[0]
    assert len({completion.logprobs for completion in seen.values()}) == 3


def test_pitfall_04_no_version_reads_the_blocks_of_another(crew: Any) -> None:
    prompt = tuple(range(400, 496))  # three blocks, which no other test has cached
    for _ in range(2):
        version = fresh_version()
        canary(crew, version, seed=version.step)
        cached = [
            sample(crew, seeds=(5,), adapter=str(version), prompt_ids=prompt).cached_prompt_tokens
            for _ in range(2)
        ]
        assert cached[0] == 0
        assert cached[1] >= 64


def test_pitfall_05_no_engine_sleeps_and_the_learner_is_another_process(crew: Any) -> None:
    """What wakes wrong never sleeps: sampler and learner keep their weights side by side."""
    import os

    import ray

    def sleeps(worker: Any) -> bool:
        return worker._engine.vllm_config.model_config.enable_sleep_mode

    actors = (*crew.rollouts, *crew.ranks)
    pids = ray.get([a.__ray_call__.remote(lambda _: os.getpid()) for a in actors], timeout=60)
    assert len(set(pids)) == len(actors) == 2
    asked = [rollout.__ray_call__.remote(sleeps) for rollout in crew.rollouts]
    assert ray.get(asked, timeout=60) == [False]


def test_latest_is_the_newest_version_of_the_seat(crew: Any) -> None:
    older, newer = fresh_version(), fresh_version()
    canary(crew, newer, seed=1)
    assert sample(crew).version == str(newer)
    canary(crew, older, seed=2)  # arrives late: it is not the latest
    assert sample(crew).version == str(newer)
    with pytest.raises(SamplingError, match="no adapter of seat 'user'"):
        sample(crew, seat="user")


def test_a_version_cannot_be_loaded_twice_and_retired_ones_are_gone(crew: Any) -> None:
    import ray

    version, kept = fresh_version(), fresh_version()
    files = canary(crew, version, seed=1)
    canary(crew, kept, seed=2)
    with pytest.raises(ValueError, match="versions are immutable"):
        ray.get(crew.rollouts[0].load_adapter.remote(files, PROBE), timeout=60)
    ray.get(crew.rollouts[0].retire.remote([str(kept)]), timeout=60)
    assert ray.get(crew.rollouts[0].versions.remote(), timeout=60) == (str(kept),)
    with pytest.raises(SamplingError, match="is not loaded here"):
        sample(crew, adapter=str(version))


def test_pitfall_19_a_prompt_without_room_fails_at_once(crew: Any, crew_config: Config) -> None:
    too_long = tuple(100 for _ in range(crew_config.model.context_tokens - 5))
    with pytest.raises(SamplingError, match="leaves 5 of the 12 wanted"):
        sample(crew, prompt_ids=too_long, adapter=None)


def test_seeds_decide_what_is_sampled(crew: Any) -> None:
    again = [c.ids for c in sample(crew, seeds=(11, 12, 11), adapter=None).completions]
    assert again[0] == again[2] != again[1]


def test_pitfall_01_a_publish_proves_digest_and_probe(crew: Any, crew_config: Config) -> None:
    publish = publisher(crew, crew_config)
    publish.prove(seed=0)
    version = fresh_version()
    published = publish.publish(version)
    assert published.probe_difference < 1e-3
    assert sample(crew).version == str(version)


class LyingLearner:
    """Claims probe log-probs that the exported adapter does not give (stands for a lost sync)."""

    def __init__(self, learner: Any, shift: float) -> None:
        self._learner = learner
        self._shift = shift

    def export(self, version: str, probe_ids: Sequence[int]) -> tuple[AdapterFiles, tuple]:
        files, logprobs = self._learner.export(version, probe_ids)
        return files, tuple(value + self._shift for value in logprobs)

    def canary(self, version: str, seed: int, probe_ids: Sequence[int]) -> tuple:
        """Exports the untrained adapter as if it were the canary."""
        return self._learner.export(version, probe_ids)


def test_pitfall_01_a_worker_that_serves_something_else_stops_the_run(
    crew: Any, crew_config: Config
) -> None:
    from actors.trainer.publish import ArrivalError, Publisher

    lying = Publisher(LyingLearner(crew.learner, 0.01), crew.rollouts, PROBE, 1e-3, 120.0)
    with pytest.raises(ArrivalError, match=r"differ from the learner's by 0\.0"):
        lying.publish(fresh_version())


def test_pitfall_01_a_damaged_adapter_is_noticed_by_its_digest(
    crew: Any, crew_config: Config
) -> None:
    import ray

    from actors.trainer.publish import ArrivalError, Publisher

    class DamagedInTransit(LyingLearner):
        def export(self, version: str, probe_ids: Sequence[int]) -> tuple[AdapterFiles, tuple]:
            files, logprobs = self._learner.export(version, probe_ids)
            return AdapterFiles(version, files.config, files.weights, "0" * 64), logprobs

    damaged = Publisher(DamagedInTransit(crew.learner, 0), crew.rollouts, PROBE, 1e-3, 120.0)
    with pytest.raises(ArrivalError, match="arrived with digest"):
        damaged.publish(fresh_version())
    assert ray.get(crew.rollouts[0].versions.remote(), timeout=60)


@pytest.mark.heavy
def test_vllms_own_products_and_executor_give_the_same_logprobs(
    crew: Any, crew_config: Config, tiny_dir: Path
) -> None:
    """What GPUs use: without the CPU's dense products and its single process."""
    import ray

    from actors.rollout.options import RolloutOptions
    from actors.rollout.worker import RolloutWorker

    options = replace(
        RolloutOptions.from_config(crew_config, str(tiny_dir)),
        dense_adapters=False,
        single_process=False,
    )
    plain = (
        ray.remote(RolloutWorker)
        .options(runtime_env={"env_vars": options.environment()}, max_concurrency=100)
        .remote(options)
    )
    ray.get(plain.start.remote(), timeout=300)
    version = fresh_version()
    files, _ = crew.learner.canary(str(version), 7, PROBE)
    request = SampleRequest("assistant", PROMPT, (1, 2, 3), 12, 1.0, adapter=str(version))
    try:
        results = []
        for worker in (crew.rollouts[0], plain):
            ray.get(worker.load_adapter.remote(files, PROBE), timeout=120)
            results.append(ray.get(worker.sample.remote(request), timeout=120))
        ours, theirs = results
        for our, their in zip(ours.completions, theirs.completions, strict=True):
            assert our.ids == their.ids
            assert our.logprobs == pytest.approx(their.logprobs, abs=1e-4)
    finally:
        ray.get(plain.shutdown.remote(), timeout=60)
        ray.kill(plain)
