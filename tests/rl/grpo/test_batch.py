import math
from dataclasses import replace

import pytest

from rl.config.schema import GrpoConfig
from rl.episode.outcome import EpisodeEnd, FinishReason
from rl.episode.records import Candidate, Episode, EpisodeId, Group
from rl.episode.tokens import TokenTreeBuilder
from rl.grpo.batch import TrainingBatch, build_training_batch
from rl.grpo.batch_diagnostics import add_failed


def episode(order, groups, *, end=EpisodeEnd.TURN_LIMIT, task=None):
    """An episode whose groups are lists of (reward, compliant, tokens); the first is committed."""
    tree = TokenTreeBuilder()
    at = tree.add(None, (900 + order, 901))
    records = []
    for turn, group in enumerate(groups):
        candidates = []
        for k, (reward, compliant, tokens) in enumerate(group):
            ids = tuple(range(10 * k, 10 * k + tokens))
            span = tree.add_sampled(at, ids, tuple(-0.5 - i for i in ids), f"assistant@0.{turn}")
            parts = {} if reward is None else {"discovered": reward, "penalty": -0.25}
            candidates.append(
                Candidate(
                    span,
                    "text",
                    tokens,
                    FinishReason.STOP,
                    f"assistant@0.{turn}",
                    reward,
                    parts,
                    compliant,
                )
            )
        records.append(Group(f"{order}/{turn}", turn, tuple(candidates), committed=0))
        at = tree.add(candidates[0].span, (902,))
    name = task or f"task{order}"
    identity = EpisodeId(0, name, order)
    return Episode(identity, "assistant", "svg", end, tree.build(), tuple(records))


def plain(*rewards, tokens=2):
    return [(reward, None, tokens) for reward in rewards]


def test_samples_carry_prefix_mask_logprobs_and_advantage():
    batch = build_training_batch(
        [episode(0, [plain(0.0, 1.0), plain(3.0, 2.0)])], GrpoConfig(normalise="mean")
    )
    first, _, third, fourth = batch.samples
    assert first.ids == (900, 901, 0, 1)
    assert first.mask == (0, 0, 1, 1)
    assert first.behaviour_logprobs == (0.0, 0.0, -0.5, -1.5)
    assert (first.advantage, first.reward) == (-0.5, 0.0)
    assert (first.episode, first.group, first.candidate) == ("0:task0", "0/0", 0)
    assert first.version == "assistant@0.0"
    # the second turn hangs off the first one's committed candidate, which is prefix there
    assert third.ids == (900, 901, 0, 1, 902, 0, 1)
    assert third.mask == (0, 0, 0, 0, 0, 1, 1)
    assert [s.advantage for s in (third, fourth)] == [0.5, -0.5]
    assert fourth.version == "assistant@0.1"
    assert batch.trained_tokens == batch.diagnostics.trained_tokens == 8


def test_order_is_that_of_episodes_groups_and_candidates_whatever_arrives_first():
    episodes = [episode(order, [plain(0, 1, 2), plain(2, 0, 1)]) for order in (2, 0, 1)]
    batch = build_training_batch(episodes, GrpoConfig())
    assert batch == build_training_batch(episodes[::-1], GrpoConfig())
    assert [(s.group, s.candidate) for s in batch.samples] == [
        (f"{order}/{turn}", k) for order in range(3) for turn in range(2) for k in range(3)
    ]


def test_groups_without_weight_give_no_sample_and_are_counted():
    batch = build_training_batch(
        [episode(0, [plain(1, 1, 1), plain(0, None), plain(0, 1), plain(None, None)])],
        GrpoConfig(),
    )
    assert {s.group for s in batch.samples} == {"0/2"}
    diagnostics = batch.diagnostics
    assert diagnostics.groups_informative == 1
    assert diagnostics.groups_uninformative == 1
    assert diagnostics.groups_failed == 2
    assert (diagnostics.candidates_usable, diagnostics.candidates_unusable) == (6, 3)
    assert diagnostics.trained_tokens == 4
    assert diagnostics.generated_tokens == 18  # all nine candidates


def test_pitfall_14_candidates_without_tokens_enter_nothing():
    group = [(9.0, None, 0), (0.0, None, 2), (1.0, None, 2)]
    batch = build_training_batch([episode(0, [group])], GrpoConfig(normalise="mean"))
    assert [(s.candidate, s.advantage) for s in batch.samples] == [(1, -0.5), (2, 0.5)]
    assert batch.diagnostics.reward_mean == 0.5
    assert all(s.trained_tokens > 0 for s in batch.samples)


def test_pitfall_16_missing_is_not_zero():
    batch = build_training_batch([episode(0, [plain(2.0, None, 4.0)])], GrpoConfig())
    assert [s.candidate for s in batch.samples] == [0, 2]
    assert batch.diagnostics.reward_mean == 3.0
    assert batch.diagnostics.reward_parts == {"discovered": 3.0, "penalty": -0.25}


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_pitfall_16_a_reward_that_is_not_finite_is_dropped_and_counted(bad):
    batch = build_training_batch([episode(0, [plain(0.0, bad, 1.0)])], GrpoConfig())
    assert [s.candidate for s in batch.samples] == [0, 2]
    assert batch.diagnostics.rewards_not_finite == 1
    assert batch.diagnostics.reward_mean == 0.5


def test_failed_episodes_are_counted_and_not_trained():
    failed = episode(1, [plain(0, 1)], end=EpisodeEnd.ROLLOUT_FAILED)
    batch = build_training_batch([episode(0, [plain(0, 1)]), failed], GrpoConfig())
    assert {s.episode for s in batch.samples} == {"0:task0"}
    diagnostics = batch.diagnostics
    assert diagnostics.episodes_failed == 1
    assert (diagnostics.groups_informative, diagnostics.groups_failed) == (1, 1)
    assert diagnostics.generated_tokens == 8
    assert (diagnostics.candidates_usable, diagnostics.reward_mean) == (2, 0.5)


def test_every_group_is_counted_once_those_of_failed_episodes_and_unscored_ones_as_failed():
    played = episode(0, [plain(0, 1), plain(1, 1), plain(None, None), plain(2, None)])
    judge_failed = episode(1, [plain(0, 1), plain(None, None)], end=EpisodeEnd.JUDGE_FAILED)
    stale = episode(2, [plain(0, 1, 2)], end=EpisodeEnd.STALE)
    trained = build_training_batch([played], GrpoConfig())
    counted = add_failed(trained.diagnostics, [judge_failed, stale])
    assert counted.groups_informative == 1
    assert counted.groups_uninformative == 1
    assert counted.groups_failed == 2 + 2 + 1
    assert counted.episodes_failed == 2
    assert counted.generated_tokens == 16 + 8 + 6
    together = build_training_batch([judge_failed, played, stale], GrpoConfig())
    assert together == TrainingBatch(trained.samples, counted)


def parts_group(*parts, unscored=0):
    """A group whose candidates have the given reward parts, and some without any."""
    made = episode(0, [plain(*(sum(p.values()) for p in parts), *[None] * unscored)])
    group = made.groups[0]
    named = [replace(c, reward_parts=p) for c, p in zip(group.candidates, parts, strict=False)]
    candidates = (*named, *group.candidates[len(parts) :])
    return replace(made, groups=(replace(group, candidates=candidates),))


@pytest.mark.parametrize(
    ("discoveries", "penalties", "informative", "by_length"),
    [
        ((1.0, 1.0), (0.0, -0.25), 1, 1),
        ((0.0, 0.0, 0.0), (0.0, 0.0, -0.5), 1, 1),
        ((1.0, 0.0), (0.0, -0.25), 1, 0),
        ((1.0, 0.0), (0.0, 0.0), 1, 0),
        ((0.0, 1.0, 1.0), (-0.5, -0.25, 0.0), 1, 0),
        ((1.0, 1.0), (-0.25, -0.25), 0, 0),
        ((1.0, 0.5), (-0.5, 0.0), 0, 0),  # the parts differ and the rewards do not
    ],
)
def test_groups_that_differ_by_the_length_penalty_alone(
    discoveries, penalties, informative, by_length
):
    parts = [
        {"discovery": discovery, "length_penalty": penalty}
        for discovery, penalty in zip(discoveries, penalties, strict=True)
    ]
    for unscored in (0, 2):  # a candidate without a reward says nothing
        batch = build_training_batch([parts_group(*parts, unscored=unscored)], GrpoConfig())
        assert batch.diagnostics.groups_informative == informative
        assert batch.diagnostics.groups_informative_by_length_only == by_length


def test_rewards_without_a_length_penalty_differ_by_something_else():
    for parts in ([{"quality": 1.0}, {"quality": 2.0}], [{"quality": 1.0}, {}]):
        batch = build_training_batch([parts_group(*parts)], GrpoConfig())
        assert batch.diagnostics.groups_informative == 1
        assert batch.diagnostics.groups_informative_by_length_only == 0
    unnamed = build_training_batch([episode(0, [plain(0, 1)])], GrpoConfig())
    assert unnamed.diagnostics.groups_informative_by_length_only == 0


def test_a_constraint_that_splits_a_group_tells_it_apart_too():
    made = parts_group({"length_penalty": 0.0}, {"length_penalty": -0.25})
    group = made.groups[0]
    for compliant, by_length in (((True, False), 0), ((True, True), 1)):
        marked = [replace(c, compliant=b) for c, b in zip(group.candidates, compliant, strict=True)]
        one = replace(made, groups=(replace(group, candidates=tuple(marked)),))
        diagnostics = build_training_batch([one], GrpoConfig(calibration="calibrated")).diagnostics
        assert diagnostics.groups_informative == 1
        assert diagnostics.groups_informative_by_length_only == by_length


def test_calibration_is_applied_and_diagnosed():
    worked = [(0.9, False, 1), (0.0, False, 1), (0.5, True, 1)]  # Δ = 0.5
    violating = [(0.2, False, 1), (0.4, False, 1)]
    config = GrpoConfig(calibration="calibrated")
    batch = build_training_batch([episode(0, [worked, violating])], config)
    assert [s.reward for s in batch.samples] == pytest.approx([0.4, -0.5, 0.5, 0.2, 0.4])
    diagnostics = batch.diagnostics
    assert (diagnostics.violators, diagnostics.compliers) == (4, 1)
    assert (diagnostics.groups_mixed, diagnostics.groups_all_violating) == (1, 1)
    assert diagnostics.mean_shift == pytest.approx(0.5)
    assert diagnostics.positive_advantage_violators == 2
    assert diagnostics.negative_advantage_compliers == 0
    assert diagnostics.reward_mean == pytest.approx((0.9 + 0 + 0.5 + 0.2 + 0.4) / 5)
    skipping = replace(config, skip_all_violating=True)
    skipped = build_training_batch([episode(0, [worked, violating])], skipping)
    assert {s.group for s in skipped.samples} == {"0/0"}
    assert skipped.diagnostics.groups_all_violating_skipped == 1


def test_an_empty_batch_has_no_means():
    batch = build_training_batch([], GrpoConfig())
    assert batch.samples == ()
    assert batch.diagnostics.reward_mean is None
    assert batch.diagnostics.mean_shift is None


def test_an_episode_is_never_trained_twice():
    with pytest.raises(ValueError, match="0:task0 occurs twice"):
        build_training_batch([episode(0, [plain(0, 1)]), episode(0, [])], GrpoConfig())
