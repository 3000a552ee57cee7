"""The learner against plain PyTorch: log-probs, loss, gradients and optimiser steps."""

import pytest
import torch
from learner_batch import batch_of
from learner_reference import Formula
from learner_scenarios import ONE_UPDATE, THREE_UPDATES

from actors.learner.group import LearnerGroup

pytestmark = pytest.mark.stack

EXACT = 1e-9
FLOAT32 = 1e-4

ONE = Formula(
    sequence_mean=True,
    max_grad_norm=ONE_UPDATE["optimizer__max_grad_norm"],
    rates=(ONE_UPDATE["optimizer__learning_rate"],),
)
# Warm-up over two updates to a rate of 0.02: half of it, all of it, all of it.
THREE = Formula(kl_beta=0.1, weight_decay=0.1, max_grad_norm=0.05, rates=(0.01, 0.02, 0.02))
THREE_MORE = Formula(kl_beta=0.1, weight_decay=0.1, max_grad_norm=0.05, rates=(0.02, 0.02, 0.02))


@pytest.fixture(scope="module")
def two_batches(reference, policy_samples):
    """Twice three updates: the reports of each batch, and the parameters after it."""
    policy, seen = reference(), []
    for formula in (THREE, THREE_MORE):
        updates = policy.train(policy_samples, formula)
        seen.append((updates, {n: p.detach().clone() for n, p in policy.parameters.items()}))
    return seen


def assert_close(ours, expected, tolerance):
    assert ours.keys() == expected.keys()
    for name, values in expected.items():
        torch.testing.assert_close(ours[name], values.detach(), rtol=0, atol=tolerance, msg=name)


def logprob_gap(ours, reference, samples):
    gaps = [
        (torch.tensor(values, dtype=torch.float64) - reference.logprobs(sample)).abs().max()
        for values, sample in zip(ours, samples, strict=True)
    ]
    return max(gaps).item()


def test_one_update_in_float64(alone, reference, policy_samples):
    ours, policy = alone["exact one update"], reference()
    assert logprob_gap(ours["logprobs"], policy, policy_samples) < EXACT
    [expected] = policy.train(policy_samples, ONE)
    [report], [gradients] = ours["train"]["reports"], ours["train"]["gradients"]
    assert report.sums["loss"] == pytest.approx(expected.loss, abs=EXACT)
    assert report.grad_norm == pytest.approx(expected.grad_norm, abs=EXACT)
    assert_close(gradients, expected.gradients, EXACT)
    assert_close(ours["parameters"], policy.parameters, EXACT)


def test_several_updates_a_batch_in_float64(alone, two_batches):
    """Two batches of three updates: clip, importance weights, KL, norm cut, decay and warm-up."""
    ours = alone["exact"]
    calls = (("train", "parameters", THREE), ("train_on", "parameters_after", THREE_MORE))
    for (train, parameters, formula), (expected, after) in zip(calls, two_batches, strict=True):
        reports, gradients = ours[train]["reports"], ours[train]["gradients"]
        assert [report.learning_rate for report in reports] == list(formula.rates)
        for update, report, seen in zip(expected, reports, gradients, strict=True):
            tokens = report.sums["tokens"]
            assert report.sums["loss"] == pytest.approx(update.loss, abs=EXACT)
            assert report.grad_norm == pytest.approx(update.grad_norm, abs=EXACT)
            assert report.sums["clipped_tokens"] / tokens == pytest.approx(update.clipped)
            assert report.sums["capped_tokens"] / tokens == pytest.approx(update.capped)
            assert_close(seen, update.gradients, EXACT)
        assert_close(ours[parameters], after, EXACT)
        # What is compared is worth comparing: everything acted.
        assert expected[0].clipped == 0 and all(update.clipped > 0.2 for update in expected[1:])
        assert all(update.capped > 0 for update in expected)
        assert any(update.grad_norm > formula.max_grad_norm for update in expected)


def test_report_of_all_ranks_is_the_batch(alone, pair, setting, two_batches):
    """The trainer's numbers: means over the batch's tokens and over its updates."""
    expected, _ = two_batches[0]
    for world in (alone, pair):
        options = setting.options(**THREE_UPDATES)
        group = LearnerGroup([None] * len(world.ranks), options)
        report = group.report(world.reports("exact"))
        loss = sum(update.loss for update in expected) / 3
        clipped = sum(update.clipped for update in expected) / 3
        assert report.metrics["loss"] == pytest.approx(loss, abs=EXACT)
        assert report.metrics["clip_fraction"] == pytest.approx(clipped, abs=EXACT)
        assert report.grad_norm == pytest.approx(expected[-1].grad_norm, abs=EXACT)
        assert report.learning_rate == 0.02


def test_float32_logprobs_and_gradients(alone, two_batches, reference, policy_samples):
    ours = alone["float32 zero 0"]
    assert logprob_gap(ours["logprobs"], reference(), policy_samples) < FLOAT32
    expected = two_batches[0][0][0].gradients
    for name, gradient in ours["train"]["gradients"][0].items():
        gap = (gradient.double() - expected[name]).norm() / expected[name].norm()
        assert gap < FLOAT32, name


def test_gradient_checkpointing_recomputes_every_layer_and_changes_nothing(alone, setting):
    with_it, without = alone["exact"], alone["exact, no checkpointing"]
    options = setting.options(**THREE_UPDATES)
    [micro_batches] = LearnerGroup([None], options).partition(batch_of(setting.samples))
    layers, updates = 2, 3
    once = layers * updates * len(micro_batches)
    assert without["train"]["layer_passes"] == once
    assert with_it["train"]["layer_passes"] == 2 * once
    for ours, expected in zip(
        without["train"]["gradients"], with_it["train"]["gradients"], strict=True
    ):
        assert_close(ours, expected, 1e-14)
    assert_close(without["parameters"], with_it["parameters"], 1e-12)


def test_dropout_acts_in_training_only(alone):
    """Scores are the policy's that the sampler runs, or the arrival check would fail on noise."""
    ours, plain = alone["dropout"], alone["float32 zero 0"]
    assert ours["logprobs"] == plain["logprobs"]
    losses = [
        [report.sums["loss"] for report in scenario["train"]["reports"]]
        for scenario in (ours, plain)
    ]
    assert abs(losses[0][0] - losses[1][0]) > 1e-3
