"""How a batch is cut, and what is not in it, changes nothing."""

import pytest
import torch
from learner_scenarios import STAGES
from safetensors.torch import load

pytestmark = pytest.mark.stack


def largest_gap(ours, expected):
    assert ours.keys() == expected.keys()
    return max((ours[name] - expected[name]).abs().max().item() for name in expected)


@pytest.mark.parametrize("cut", ["exact, one micro-batch", "exact, one sample each"])
def test_pitfall_17_any_cut_into_micro_batches_gives_the_same_update(alone, cut):
    ours, expected = alone[cut], alone["exact"]
    for gradients, wanted in zip(
        ours["train"]["gradients"], expected["train"]["gradients"], strict=True
    ):
        assert largest_gap(gradients, wanted) < 1e-12
    assert largest_gap(ours["parameters"], expected["parameters"]) < 1e-10


def test_pitfall_17_two_ranks_give_the_same_update_as_one(alone, pair):
    expected = alone["exact"]
    for rank in pair.ranks:
        ours = rank["exact"]
        for gradients, wanted in zip(
            ours["train"]["gradients"], expected["train"]["gradients"], strict=True
        ):
            assert largest_gap(gradients, wanted) < 1e-12
        assert largest_gap(ours["parameters"], expected["parameters"]) < 1e-10


def test_pitfall_17_both_ranks_had_work(pair):
    """Otherwise the test above shows nothing: the ranks' shares differ and add up to the batch."""
    tokens = [[r.sums["tokens"] for r in reports] for reports in pair.reports("exact")]
    assert min(min(share) for share in tokens) > 0
    assert [sum(update) for update in zip(*tokens, strict=True)] == [42.0] * 3


@pytest.mark.parametrize("stage", STAGES)
def test_pitfall_17_a_rank_without_samples_takes_part(alone, pair, stage):
    name = f"lone sample zero {stage}"
    reports = pair.ranks[1][name]["train"]["reports"]
    assert len(reports) == 3
    assert not any(value for report in reports for value in report.sums.values())
    expected = load(alone["lone sample zero 0"]["export"].weights)
    for rank in pair.ranks:
        ours = load(rank[name]["export"].weights)
        assert largest_gap(ours, expected) < 5e-5


def test_pitfall_30_a_batch_without_trained_tokens_has_no_effect(alone):
    """Not even through the optimiser: its momentum would move the policy on a gradient of 0."""
    ours = alone["nothing to train"]
    assert ours["no_samples"]["reports"] == [] and ours["no_tokens"]["reports"] == []
    assert ours["after"].weights == ours["before"].weights
    assert ours["end"].weights == alone["float32 zero 0"]["end"].weights
    assert all(torch.isfinite(tensor).all() for tensor in load(ours["end"].weights).values())
