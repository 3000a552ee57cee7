"""How the group cuts a batch for its ranks and joins what they report."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from learner_batch import batch_of, random_samples
from learner_scenarios import learner_options

from actors.learner.engine import UpdateReport
from actors.learner.group import LearnerGroup

SUMS = {
    "clipped_tokens": 0.0,
    "ratio_sum": 0.0,
    "approx_kl_sum": 0.0,
    "mismatch_kl_sum": 0.0,
    "importance_weight_sum": 0.0,
    "capped_tokens": 0.0,
    "loss": 0.0,
    "policy_loss": 0.0,
    "kl_loss": 0.0,
}


def group_of(ranks, **changes):
    return LearnerGroup([None] * ranks, learner_options("model", **changes))


def sums(tokens, **values):
    return SUMS | {"tokens": float(tokens), "samples": 1.0} | values


@given(count=st.integers(1, 12), ranks=st.integers(1, 4), max_tokens=st.integers(1, 200))
def test_pitfall_17_every_sample_is_in_one_micro_batch_of_one_rank(count, ranks, max_tokens):
    batch = batch_of(random_samples(count))
    group = group_of(ranks, learner__micro_batch_tokens=max_tokens)
    parts = group.partition(batch)
    assert len(parts) == ranks
    assert len({len(part) for part in parts}) == 1  # as many collectives on every rank
    placed = [index for part in parts for micro in part for index in micro]
    assert sorted(placed) == list(range(count))
    for part in parts:
        for micro in part:
            longest = max((len(batch.samples[i].ids) for i in micro), default=0)
            assert len(micro) <= 1 or len(micro) * longest <= max_tokens


def test_report_by_hand():
    """Two ranks with 3 and 1 tokens, two updates."""
    ranks = [
        [
            UpdateReport(sums(3, loss=0.2, mismatch_kl_sum=0.3, ratio_sum=3.0), 0.5, 1e-3),
            UpdateReport(sums(3, loss=0.1, mismatch_kl_sum=0.9, ratio_sum=3.3), 0.7, 2e-3),
        ],
        [
            UpdateReport(sums(1, loss=0.4, mismatch_kl_sum=0.1, ratio_sum=1.0), 0.5, 1e-3),
            UpdateReport(sums(1, loss=0.3, mismatch_kl_sum=0.9, ratio_sum=1.5), 0.7, 2e-3),
        ],
    ]
    report = group_of(2).report(ranks)
    assert report.metrics["loss"] == pytest.approx((0.6 + 0.4) / 2)  # a mean over updates
    assert report.metrics["ratio_mean"] == pytest.approx((3 + 3.3 + 1 + 1.5) / 8)
    assert report.metrics["mismatch_kl"] == pytest.approx(0.4 / 4)  # of the first update alone
    assert (report.grad_norm, report.learning_rate) == (0.7, 2e-3)


def test_report_counts_a_rank_without_samples_as_nothing():
    ranks = [[UpdateReport(sums(2, loss=0.5), 1.0, 1e-3)], [UpdateReport({}, 1.0, 1e-3)]]
    assert group_of(2).report(ranks).metrics["loss"] == 0.5


def test_pitfall_30_report_without_an_update_has_no_numbers():
    report = group_of(2).report([[], []])
    assert set(report.metrics.values()) == {None}
    assert report.grad_norm is None and report.learning_rate is None
