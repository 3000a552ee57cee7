"""Whole GRPO jobs end to end: versions, staleness, repetition, resume, records."""

import json
import shutil
from pathlib import Path

import pytest

from rl.episode.records import Episode
from rl.grpo.batch import build_training_batch
from rl.policy.version import AdapterVersion
from tests.e2e.conftest import FinishedJob, difference, run, weights

pytestmark = pytest.mark.stack


def dialogue(episode: Episode) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in episode.turns]


def sampled_ids(episode: Episode) -> list[tuple[int, ...]]:
    return [span.ids for span in episode.tokens.sampled()]


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


def test_pitfall_21_a_resumed_synchronous_run_equals_the_uninterrupted_one(
    synchronous: FinishedJob, runs_dir: Path
) -> None:
    """Continued from its first checkpoint, as if it had been killed before it wrote the second."""
    cut = runs_dir / "cut"
    shutil.copytree(synchronous.folder, cut)
    shutil.rmtree(cut / "checkpoints" / "step-000002")
    (cut / "summary.json").unlink()
    resumed = run(cut, [f"run.resume={cut}"])
    assert [row["step"] for row in resumed.metrics] == [1, 2]
    assert [str(e.id) for e in resumed.episodes] == [str(e.id) for e in synchronous.episodes]
    for ours, theirs in zip(resumed.episodes, synchronous.episodes, strict=True):
        assert dialogue(ours) == dialogue(theirs)
        assert sampled_ids(ours) == sampled_ids(theirs)
    # A restart opens a lineage of its own, so that no version name is used twice.
    assert [row["policy_version"] for row in resumed.metrics] == ["assistant@0.1", "assistant@1.2"]
    ours, theirs = weights(resumed.checkpoints[-1]), weights(synchronous.checkpoints[-1])
    assert difference(ours, theirs) < 1e-6
    losses = [[row["loss"] for row in job.metrics] for job in (resumed, synchronous)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
