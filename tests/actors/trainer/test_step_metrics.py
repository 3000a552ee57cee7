"""A step's row, worked out by hand; what was not measured is missing, never 0."""

from actors.learner.group import TrainReport
from actors.trainer.gate import Cut
from actors.trainer.publish import Published
from actors.trainer.step_metrics import add_counters, mean_metric, step_row
from rl.config.schema import GrpoConfig
from rl.episode.jsonl import append_row, read_rows
from rl.episode.outcome import EpisodeEnd, FinishReason
from rl.episode.records import Candidate, Episode, EpisodeId, Group
from rl.episode.tokens import Span, TokenTree
from rl.grpo.batch import build_training_batch
from rl.policy.adapter import AdapterFiles

REPORT = TrainReport(
    {
        "loss": 0.25,
        "policy_loss": 0.25,
        "kl_loss": 0.0,
        "mismatch_kl": 1e-6,
        "mismatch_kl_current": 2e-6,
        "clip_fraction": None,
    },
    grad_norm=1.5,
    learning_rate=1e-3,
)


def episode(order, rewards, *, end=EpisodeEnd.TURN_LIMIT, metrics=None, counters=None):
    """One group of two-token candidates; a reward is (discovery, length penalty) or missing."""
    spans, candidates = [Span(0, None, (1, 2, 3))], []
    for index, parts in enumerate(rewards):
        total = None if parts is None else sum(parts)
        span = Span(index + 1, 0, (4, 5), True, (-0.1, -0.2), "assistant@0.1", total)
        spans.append(span)
        named = dict(zip(("discovery", "length_penalty"), parts or (), strict=False))
        candidates.append(
            Candidate(span.id, "x", 2, FinishReason.STOP, "assistant@0.1", total, named)
        )
    return Episode(
        EpisodeId(0, f"task-{order}", order),
        "assistant",
        "svg",
        end,
        TokenTree(tuple(spans)),
        (Group(f"0:task-{order}/0", 0, tuple(candidates), 0),),
        metrics=metrics or {},
        counters=counters or {},
    )


def row(episodes, report=REPORT, staleness=None, failed=()):
    return step_row(
        step=3,
        steps=6,
        published=Published(AdapterFiles.of("assistant@0.3", b"", b""), 1e-5, 2e-3, True, 0.5),
        cut=Cut(tuple(episodes), staleness or (0,) * len(episodes)),
        batch=build_training_batch(episodes, GrpoConfig()),
        report=report,
        seconds={"wait": 4.0, "train": 5.0, "publish": 0.5},
        failures={"deadline": 2},
        failed=failed,
        rollout_counters={"generated_tokens": 100},
        kv_age=1,
    )


def test_a_row_by_hand(tmp_path):
    made = row(
        [
            episode(
                7,
                [(2.0, -0.5), (0.0, -0.5), None],
                metrics={"discover": 50.0, "satisfy": 10.0},
                counters={"finish_stop": 3, "user_leaks": 1},
            ),
            episode(
                8,
                [(1.0, 0.0), (1.0, 0.0)],
                end=EpisodeEnd.ALL_SATISFIED,
                metrics={"discover": 100.0},
                counters={"finish_stop": 2},
            ),
        ],
        staleness=(2, 0),
    )
    expected = {
        "step": 3,
        "steps": 6,
        "policy_version": "assistant@0.3",
        "loss": 0.25,
        "reward_mean": (1.5 - 0.5 + 1.0 + 1.0) / 4,
        "reward_parts": {"discovery": 1.0, "length_penalty": -0.25},
        "discover": 75.0,
        "satisfy": 10.0,  # of the one that has it
        "groups_informative": 1,
        "groups_informative_by_length_only": 0,
        "groups_uninformative": 1,
        "groups_failed": 0,
        "candidates_usable": 4,
        "candidates_unusable": 1,
        "generated_tokens": 10,
        "trained_tokens": 4,
        "batch_skipped": False,
        "staleness": {"0": 1, "2": 1},
        "mismatch_kl": 1e-6,
        "mismatch_kl_current": 2e-6,
        "grad_norm": 1.5,
        "learning_rate": 1e-3,
        "policy": {"policy_loss": 0.25, "kl_loss": 0.0, "clip_fraction": None},
        "seconds": {"wait": 4.0, "train": 5.0, "publish": 0.5},
        "episode_ends": {"turn_limit": 1, "all_satisfied": 1},
        "failures": {"deadline": 2},
        "counters": {"finish_stop": 5, "user_leaks": 1},
        "rollout": {"generated_tokens": 100},
        "probe_difference": 1e-5,
        "probe_moved": 2e-3,
        "probe_conclusive": True,
        "kv_age": 1,
        "episodes_failed": 0,
    }
    assert {name: made[name] for name in expected} == expected
    append_row(tmp_path / "metrics.jsonl", made)
    assert list(read_rows(tmp_path / "metrics.jsonl")) == [made]


def test_a_skipped_batch_has_no_loss_instead_of_0():
    made = row([episode(0, [(1.0, 0.0), (1.0, 0.0)])], report=None)
    assert made["batch_skipped"] is True
    assert (made["groups_uninformative"], made["trained_tokens"]) == (1, 0)
    for name in ("loss", "mismatch_kl", "grad_norm", "learning_rate"):
        assert made[name] is None
    assert made["policy"] == {}
    assert made["reward_mean"] == 1.0


def test_pitfall_16_without_any_verdict_there_is_no_reward():
    made = row([episode(0, [None, None])], report=None)
    assert made["reward_mean"] is None
    assert made["reward_parts"] == {}
    assert (made["groups_failed"], made["candidates_unusable"]) == (1, 2)
    assert (made["discover"], made["satisfy"]) == (None, None)


def test_the_names_that_readers_look_for_are_there():
    """Every figure that a run folder promises, whatever the step was like."""
    wanted = {
        "step",
        "policy_version",
        "loss",
        "reward_mean",
        "reward_parts",
        "discover",
        "groups_informative",
        "groups_informative_by_length_only",
        "groups_uninformative",
        "groups_failed",
        "episodes_failed",
        "generated_tokens",
        "trained_tokens",
        "staleness",
        "mismatch_kl",
        "positive_advantage_violators",
        "seconds",
    }
    assert wanted <= set(row([episode(0, [None])], report=None))


def test_means_and_sums_over_episodes():
    episodes = [
        episode(0, [], metrics={"discover": 0.0}, counters={"b": 2, "a": 1}),
        episode(1, [], metrics={"discover": 30.0}, counters={"b": 1}),
        episode(2, []),
    ]
    assert mean_metric(episodes, "discover") == 15.0
    assert mean_metric(episodes, "satisfy") is None
    assert mean_metric([], "discover") is None
    assert list(add_counters(episodes).items()) == [("a", 1), ("b", 3)]


def test_failed_episodes_are_counted_and_in_no_mean():
    lost = episode(
        9,
        [(8.0, 0.0), None],
        end=EpisodeEnd.DEADLINE,
        metrics={"discover": 90.0},
        counters={"a": 1},
    )
    fine = episode(8, [(1.0, 0.0), (2.0, 0.0)], metrics={"discover": 10.0}, counters={"a": 2})
    made = row([fine], failed=[lost])
    assert (made["episodes_failed"], made["generated_tokens"], made["trained_tokens"]) == (1, 8, 4)
    assert (made["groups_informative"], made["groups_failed"]) == (1, 1)
    assert (made["reward_mean"], made["discover"], made["candidates_unusable"]) == (1.5, 10.0, 0)
    assert made["episode_ends"] == {"turn_limit": 1, "deadline": 1}
    assert made["counters"] == {"a": 3}
