"""Whole GRPO jobs end to end: versions, staleness, repetition, resume, records."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from rl.episode.records import Episode
from rl.grpo.batch import build_training_batch
from rl.policy.version import AdapterVersion
from tests.e2e.conftest import FinishedJob, difference, run, weights

pytestmark = pytest.mark.stack


def dialogue(episode: Episode) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in episode.turns]


def sampled_ids(episode: Episode) -> list[tuple[int, ...]]:
    return [span.ids for span in episode.tokens.sampled()]


def assert_equal_episodes(ours: Sequence[Episode], theirs: Sequence[Episode]) -> None:
    for our, their in zip(ours, theirs, strict=True):
        assert dialogue(our) == dialogue(their)
        assert sampled_ids(our) == sampled_ids(their)


def steps_of(episode: Episode) -> list[int]:
    return [AdapterVersion.parse(name).step for name in episode.versions]


def test_a_synchronous_run_trains_and_serves_each_new_version(synchronous: FinishedJob) -> None:
    first, last = synchronous.checkpoints[-2:]
    assert weights(first) != weights(last)
    assert [row["policy_version"] for row in synchronous.metrics] == [
        "assistant@0.1",
        "assistant@0.2",
    ]
    by_batch = [synchronous.episodes[:2], synchronous.episodes[2:]]
    assert [{step for e in batch for step in steps_of(e)} for batch in by_batch] == [{0}, {1}]
    assert all(row["staleness"] == {"0": 2} for row in synchronous.metrics)
    assert all(row["mismatch_kl"] < 1e-6 for row in synchronous.metrics)
    assert all(row["mismatch_kl_current"] == row["mismatch_kl"] for row in synchronous.metrics)
    assert all(row["probe_conclusive"] for row in synchronous.metrics)
    assert [row["kv_age"] for row in synchronous.metrics] == [0, 0]


def test_a_metrics_row_says_what_the_specification_asks(synchronous: FinishedJob) -> None:
    row = synchronous.metrics[0]
    batch = build_training_batch(synchronous.episodes[:2], synchronous.config.grpo)
    assert row["reward_mean"] == pytest.approx(batch.diagnostics.reward_mean)
    assert row["trained_tokens"] == batch.trained_tokens
    assert row["generated_tokens"] == sum(
        len(ids) for e in synchronous.episodes[:2] for ids in sampled_ids(e)
    )
    groups = [row[f"groups_{kind}"] for kind in ("informative", "uninformative", "failed")]
    assert sum(groups) == 2 * synchronous.config.discovery.assistant_turns
    assert {"discovery", "length_penalty"} == set(row["reward_parts"])
    assert {"wait", "train", "publish", "checkpoint"} == set(row["seconds"])
    assert row["positive_advantage_violators"] == 0
    assert row["discover"] == pytest.approx(
        sum(e.metrics["discover"] for e in synchronous.episodes[:2]) / 2
    )
    assert row["loss"] is not None


def test_every_episode_is_recorded_with_states_and_judgements(synchronous: FinishedJob) -> None:
    for episode in synchronous.episodes:
        assert str(episode.end) == "turn_limit"
        assert [turn.role for turn in episode.turns] == ["user", "assistant", "user", "assistant"]
        assert all(turn.state is not None for turn in episode.turns)
        for group in episode.groups:
            assert len(group.candidates) == 4
            assert all(c.verdict is not None and c.reward is not None for c in group.candidates)


def test_a_folder_holds_config_summary_and_checkpoints(synchronous: FinishedJob) -> None:
    names = {path.name for path in synchronous.folder.iterdir()}
    assert names >= {
        "config.yaml",
        "metrics.jsonl",
        "episodes.jsonl",
        "status.json",
        "summary.json",
        "checkpoints",
    }
    summary = json.loads((synchronous.folder / "summary.json").read_text())
    assert summary["status"] == "finished"
    assert summary["steps"] == 2
    assert [path.name for path in synchronous.checkpoints] == ["step-000001", "step-000002"]


def test_the_same_seed_gives_the_same_batch(
    synchronous: FinishedJob, repeated: FinishedJob
) -> None:
    assert [row["step"] for row in repeated.metrics] == [1]
    assert_equal_episodes(repeated.episodes, synchronous.episodes[:2])
    losses = [job.metrics[0]["loss"] for job in (repeated, synchronous)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    first = synchronous.checkpoints[-2]
    assert first.name == repeated.checkpoints[-1].name == "step-000001"
    assert difference(weights(repeated.checkpoints[-1]), weights(first)) < 1e-6


def test_pitfall_21_a_resumed_synchronous_run_equals_the_uninterrupted_one(
    synchronous: FinishedJob, repeated: FinishedJob
) -> None:
    """The repeated run was ended after its first step; continued, it makes the same second one."""
    resumed = run(repeated.folder, [f"run.resume={repeated.folder}", "train.steps=2"])
    assert [row["step"] for row in resumed.metrics] == [1, 2]
    assert [str(e.id) for e in resumed.episodes] == [str(e.id) for e in synchronous.episodes]
    assert_equal_episodes(resumed.episodes, synchronous.episodes)
    # A restart opens a lineage of its own, so that no version name is used twice.
    assert [row["policy_version"] for row in resumed.metrics] == ["assistant@0.1", "assistant@1.2"]
    ours, theirs = weights(resumed.checkpoints[-1]), weights(synchronous.checkpoints[-1])
    assert difference(ours, theirs) < 1e-6
    losses = [[row["loss"] for row in job.metrics] for job in (resumed, synchronous)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


def test_a_checkpoints_adapter_gives_the_logprobs_that_were_sampled_with_it(
    synchronous: FinishedJob, tiny_dir: Path
) -> None:
    """Plain peft and transformers load the first checkpoint, which wrote the second batch."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(tiny_dir, dtype=torch.float32)
    model = PeftModel.from_pretrained(base, synchronous.checkpoints[-2] / "adapter")
    spans = [(e, span) for e in synchronous.episodes[2:] for span in e.tokens.sampled()]
    assert len(spans) == 16
    for episode, span in spans:
        prefix = episode.tokens.prefix_ids(span.parent)
        with torch.no_grad():
            logits = model(torch.tensor([prefix + span.ids])).logits[0].log_softmax(-1)
        rows = torch.arange(len(prefix) - 1, len(prefix) + len(span.ids) - 1)
        expected = logits[rows, torch.tensor(span.ids)]
        assert float((torch.tensor(span.logprobs) - expected).abs().max()) < 1e-3
