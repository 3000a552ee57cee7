"""The loss against hand-worked numbers and an independent token-by-token reference in float64."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.config.schema import GrpoConfig
from rl.grpo.loss import LossCounts, LossOutcome, PolicyLossInput, policy_loss, token_shares
from rl.grpo.loss_metrics import add_sums, current_mismatch_sums, mean_metrics

AGGREGATIONS = ("token_mean", "sequence_mean")


@pytest.fixture(scope="module", autouse=True)
def _verl_is_imported_once():
    import verl.trainer.ppo.core_algos  # noqa: F401


def log(rows, dtype=torch.float64):
    return torch.tensor(rows, dtype=dtype).log()


def random_batch(seed, rows=4, tokens=6, spread=0.5, dtype=torch.float64):
    """A batch in which clip, cap and KL all act; every row has at least one trained token."""
    g = torch.Generator().manual_seed(seed)

    def noise(scale):
        return scale * torch.randn(rows, tokens, generator=g, dtype=torch.float64)

    base = -torch.rand(rows, tokens, generator=g, dtype=torch.float64) * 4 - 0.1
    mask = torch.rand(rows, tokens, generator=g) < 0.6
    mask[:, 0] = True
    return PolicyLossInput(
        logprobs=(base + noise(spread)).to(dtype),
        prox_logprobs=base.to(dtype),
        behaviour_logprobs=(base + noise(spread)).to(dtype),
        ref_logprobs=(base + noise(spread)).to(dtype),
        advantages=noise(1.0)[:, :1].expand(rows, tokens).to(dtype),
        mask=mask,
    )


def counts_of(batch):
    return LossCounts(int(batch.mask.sum()), int(batch.mask.bool().any(-1).sum()))


def reference_loss(batch, config):
    """One token at a time, as the definition reads."""
    total = batch.logprobs.new_zeros(())
    tokens = int(batch.mask.sum())
    samples = sum(bool(row.any()) for row in batch.mask)
    for row in range(batch.mask.shape[0]):
        length = int(batch.mask[row].sum())
        for t in range(batch.mask.shape[1]):
            if not batch.mask[row, t]:
                continue
            advantage = float(batch.advantages[row, t])
            prox = float(batch.prox_logprobs[row, t])
            ratio = torch.exp(batch.logprobs[row, t] - prox)
            if advantage > 0 and ratio.item() > 1 + config.clip_high:
                term = torch.tensor(-advantage * (1 + config.clip_high), dtype=torch.float64)
            elif advantage < 0 and ratio.item() < 1 - config.clip_low:
                term = torch.tensor(-advantage * (1 - config.clip_low), dtype=torch.float64)
            else:
                term = -advantage * ratio
            weight = math.exp(prox - float(batch.behaviour_logprobs[row, t]))
            loss = term * min(weight, config.importance_cap)
            if config.kl_beta:
                gap = float(batch.ref_logprobs[row, t]) - batch.logprobs[row, t]
                loss = loss + config.kl_beta * (torch.exp(gap) - gap - 1)
            share = 1 / tokens
            if config.aggregation == "sequence_mean":
                share = 1 / length / samples
            total = total + share * loss
    return total


def gradient(batch, loss_of):
    logprobs = batch.logprobs.detach().clone().requires_grad_()
    loss = loss_of(replace(batch, logprobs=logprobs))
    loss.backward()
    return loss.detach(), logprobs.grad


def test_hand_worked_numbers():
    batch = PolicyLossInput(
        logprobs=log([[0.6, 0.35, 0.9], [0.8, 0.5, 0.5]]),
        prox_logprobs=log([[0.5, 0.5, 0.5], [0.4, 0.5, 0.5]]),
        behaviour_logprobs=log([[0.25, 0.5, 0.5], [0.5, 0.4, 0.5]]),
        ref_logprobs=None,
        advantages=torch.tensor([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]], dtype=torch.float64),
        mask=torch.tensor([[1, 1, 1], [1, 1, 0]]),
    )
    config = GrpoConfig(clip_low=0.2, clip_high=0.28, importance_cap=1.5)
    # row 1, A = 1: ratio 1.2, weight 2 cut to 1.5 → −1.8; ratio 0.7 → −0.7 (the clip does not
    # act below for A > 0); ratio 1.8 clipped to 1.28 → −1.28
    # row 2, A = −1: ratio 2, weight 0.8 → 1.6; ratio 1, weight 1.25 → 1.25
    out = policy_loss(batch, LossCounts(5, 2), config)
    assert out.loss.item() == pytest.approx((-1.8 - 0.7 - 1.28 + 1.6 + 1.25) / 5, abs=1e-12)
    assert out.outcome is LossOutcome.TRAINED
    by_sample = policy_loss(batch, LossCounts(5, 2), replace(config, aggregation="sequence_mean"))
    expected = ((-1.8 - 0.7 - 1.28) / 3 + (1.6 + 1.25) / 2) / 2
    assert by_sample.loss.item() == pytest.approx(expected, abs=1e-12)
    means = mean_metrics(out.metrics)
    assert means["clip_fraction"] == pytest.approx(1 / 5)
    assert means["ratio_mean"] == pytest.approx((1.2 + 0.7 + 1.8 + 2 + 1) / 5)
    assert means["importance_weight_mean"] == pytest.approx((1.5 + 1 + 1 + 0.8 + 1.25) / 5)
    assert means["importance_capped_fraction"] == pytest.approx(1 / 5)
    k3 = [r - 1 - math.log(r) for r in (2.0, 1.0, 1.0, 0.8, 1.25)]
    assert means["mismatch_kl"] == pytest.approx(sum(k3) / 5)
    k3 = [r - 1 - math.log(r) for r in (1.2, 0.7, 1.8, 2.0, 1.0)]
    assert means["approx_kl"] == pytest.approx(sum(k3) / 5)
    assert out.metrics["tokens"] == 5
    assert out.metrics["samples"] == 2


def test_lower_clip_acts_for_a_bad_token():
    batch = PolicyLossInput(
        log([[0.3]]), log([[0.5]]), log([[0.5]]), None, -log([[math.e]]), torch.ones(1, 1)
    )
    out = policy_loss(batch, LossCounts(1, 1), GrpoConfig(clip_low=0.2))
    assert out.loss.item() == pytest.approx(0.8)  # ratio 0.6 is held at 0.8
    assert out.metrics["clipped_tokens"] == 1


def test_kl_to_the_reference_by_hand():
    batch = PolicyLossInput(
        logprobs=log([[0.5]]),
        prox_logprobs=log([[0.5]]),
        behaviour_logprobs=log([[0.5]]),
        ref_logprobs=log([[0.25]]),
        advantages=torch.zeros(1, 1, dtype=torch.float64),
        mask=torch.ones(1, 1),
    )
    out = policy_loss(batch, LossCounts(1, 1), GrpoConfig(kl_beta=0.05))
    k3 = 0.5 - math.log(0.5) - 1  # r = 0.25 / 0.5
    assert out.metrics["kl_loss"] == pytest.approx(k3)
    assert out.loss.item() == pytest.approx(0.05 * k3)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("beta", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_the_reference_in_float64(aggregation, beta, seed):
    config = GrpoConfig(aggregation=aggregation, kl_beta=beta, importance_cap=1.3)
    batch = random_batch(seed)
    ours, our_gradient = gradient(batch, lambda b: policy_loss(b, counts_of(batch), config).loss)
    theirs, their_gradient = gradient(batch, lambda b: reference_loss(b, config))
    metrics = policy_loss(batch, counts_of(batch), config).metrics
    assert metrics["clipped_tokens"] > 0
    assert metrics["capped_tokens"] > 0
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    torch.testing.assert_close(our_gradient, their_gradient, rtol=0, atol=1e-12)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_float32_agrees_with_the_reference(aggregation):
    config = GrpoConfig(aggregation=aggregation, kl_beta=0.05)
    out = policy_loss(random_batch(1, dtype=torch.float32), counts_of(random_batch(1)), config)
    assert out.loss.dtype is torch.float32
    assert out.loss.item() == pytest.approx(
        reference_loss(random_batch(1), config).item(), rel=1e-5
    )


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_several_updates_of_one_batch_follow_the_reference_while_the_clip_acts(aggregation):
    """The sampler is one version behind, π_prox is fixed, and the policy moves away from it."""
    config = GrpoConfig(aggregation=aggregation, kl_beta=0.02, importance_cap=1.2)
    ids = torch.randint(0, 7, (4, 6), generator=torch.Generator().manual_seed(3))
    start = torch.randn(4, 6, 7, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    fixed = random_batch(5)

    def logprobs_of(table):
        return table.log_softmax(-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)

    prox = logprobs_of(start)
    fixed = replace(
        fixed,
        prox_logprobs=prox,
        behaviour_logprobs=prox + 0.3 * (fixed.behaviour_logprobs - fixed.prox_logprobs),
        ref_logprobs=prox + 0.1,
    )

    def train(loss_of):
        table, losses, clipped = start.clone().requires_grad_(), [], []
        for _ in range(6):
            batch = replace(fixed, logprobs=logprobs_of(table))
            loss = loss_of(batch)
            clipped.append(policy_loss(batch, counts_of(batch), config).metrics["clipped_tokens"])
            (slope,) = torch.autograd.grad(loss, table)
            table = (table - 3.0 * slope).detach().requires_grad_()
            losses.append(loss.item())
        return table, losses, clipped

    ours, our_losses, clipped = train(lambda b: policy_loss(b, counts_of(b), config).loss)
    theirs, their_losses, _ = train(lambda b: reference_loss(b, config))
    assert clipped[0] == 0  # the first update starts at π_prox
    assert clipped[-1] > 0
    assert our_losses == pytest.approx(their_losses, abs=1e-12)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_the_importance_weight_is_applied_once_and_carries_no_gradient():
    batch = random_batch(6)
    config = GrpoConfig(importance_cap=1e9, clip_low=0.99, clip_high=1e9)
    on_policy = replace(batch, behaviour_logprobs=batch.prox_logprobs - math.log(3.0))
    plain = replace(batch, behaviour_logprobs=batch.prox_logprobs)
    _, tripled = gradient(on_policy, lambda b: policy_loss(b, counts_of(b), config).loss)
    _, single = gradient(plain, lambda b: policy_loss(b, counts_of(b), config).loss)
    torch.testing.assert_close(tripled, 3.0 * single)
    prox = batch.prox_logprobs.clone().requires_grad_()
    logprobs = batch.logprobs.clone().requires_grad_()
    policy_loss(
        replace(batch, prox_logprobs=prox, logprobs=logprobs), counts_of(batch), config
    ).loss.backward()
    assert prox.grad is None


def test_the_dual_clip_never_acts():
    batch = PolicyLossInput(
        logprobs=torch.tensor([[-1.0]], dtype=torch.float64),
        prox_logprobs=torch.tensor([[-11.0]], dtype=torch.float64),
        behaviour_logprobs=torch.tensor([[-11.0]], dtype=torch.float64),
        ref_logprobs=None,
        advantages=torch.tensor([[-1.0]], dtype=torch.float64),
        mask=torch.ones(1, 1),
    )
    loss, slope = gradient(batch, lambda b: policy_loss(b, LossCounts(1, 1), GrpoConfig()).loss)
    assert loss.item() == pytest.approx(math.exp(10))  # a dual clip at 3 would give 3
    assert slope.item() == pytest.approx(math.exp(10))


def test_documented_clamp_of_the_kl():
    def kl_loss(gap):
        one = torch.tensor([[-8.0]], dtype=torch.float64)
        batch = PolicyLossInput(one, one, one, one + gap, 0 * one, torch.ones(1, 1))
        return gradient(
            batch, lambda b: policy_loss(b, LossCounts(1, 1), GrpoConfig(kl_beta=1.0)).loss
        )

    loss, slope = kl_loss(math.log(13.0))
    assert loss.item() == pytest.approx(12 - math.log(13.0))
    assert slope.item() == pytest.approx(-12.0)
    loss, slope = kl_loss(math.log(14.0))
    assert (loss.item(), slope.item()) == (10.0, 0.0)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    cuts=st.lists(st.integers(0, 2), min_size=5, max_size=5),
    aggregation=st.sampled_from(AGGREGATIONS),
)
def test_pitfall_17_the_loss_does_not_depend_on_the_partition(seed, cuts, aggregation):
    """Rows in any micro-batches or ranks, each padded to its own longest, add up to the whole."""
    config = GrpoConfig(aggregation=aggregation, kl_beta=0.05)
    batch = random_batch(seed, rows=5)
    counts = counts_of(batch)
    whole = policy_loss(batch, counts, config)
    whole_loss, whole_gradient = gradient(batch, lambda b: policy_loss(b, counts, config).loss)
    parts, loss, slope = [], 0.0, torch.zeros_like(whole_gradient)
    for part in range(3):
        rows = [row for row, to in enumerate(cuts) if to == part]
        width = max((int(batch.mask[r].nonzero().max()) + 1 for r in rows), default=0)
        cut = PolicyLossInput(
            *(getattr(batch, name)[rows, :width] for name in batch.__dataclass_fields__)
        )
        part_loss, part_gradient = gradient(cut, lambda b: policy_loss(b, counts, config).loss)
        loss += part_loss
        slope[rows, :width] += part_gradient
        parts.append(policy_loss(cut, counts, config).metrics)
    torch.testing.assert_close(loss, whole_loss, rtol=0, atol=1e-12)
    torch.testing.assert_close(slope, whole_gradient, rtol=0, atol=1e-12)
    assert add_sums(parts) == pytest.approx(whole.metrics, abs=1e-10)


def test_token_mean_and_sequence_mean_weigh_tokens_differently():
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]])
    counts = LossCounts(tokens=4, samples=2)
    by_token = token_shares(mask, counts, "token_mean", torch.float64)
    by_sample = token_shares(mask, counts, "sequence_mean", torch.float64)
    assert by_token.tolist() == [[0.25, 0.25, 0.25, 0.0], [0.25, 0.0, 0.0, 0.0]]
    assert by_sample[1].tolist() == [0.5, 0.0, 0.0, 0.0]
    assert by_sample[0].tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 6, 0.0])


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_pitfall_30_an_empty_mask_is_a_named_outcome(aggregation):
    batch = replace(random_batch(0), mask=torch.zeros(4, 6))
    config = GrpoConfig(aggregation=aggregation, kl_beta=0.05)
    out = policy_loss(batch, LossCounts(0, 0), config)
    assert out.outcome is LossOutcome.NO_TRAINED_TOKENS
    assert out.loss.item() == 0.0
    assert all(value is None for value in mean_metrics(add_sums([out.metrics])).values())
    _, slope = gradient(batch, lambda b: policy_loss(b, LossCounts(0, 0), config).loss)
    assert torch.equal(slope, torch.zeros_like(slope))


FIELDS = ("logprobs", "prox_logprobs", "behaviour_logprobs", "ref_logprobs", "advantages")


@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("fields", [*((name,) for name in FIELDS), FIELDS])
def test_pitfall_30_values_outside_the_mask_reach_nothing(junk, fields):
    batch = random_batch(2)
    config = GrpoConfig(kl_beta=0.05)
    outside = ~batch.mask
    junk_in = {name: getattr(batch, name).masked_fill(outside, junk) for name in fields}
    dirty = replace(batch, **junk_in)
    clean_loss, clean = gradient(batch, lambda b: policy_loss(b, counts_of(b), config).loss)
    dirty_loss, dirtied = gradient(dirty, lambda b: policy_loss(b, counts_of(b), config).loss)
    assert torch.equal(clean_loss, dirty_loss)
    assert torch.equal(clean, dirtied)
    assert torch.equal(dirtied[outside], torch.zeros(int(outside.sum()), dtype=torch.float64))


def test_bad_input_is_named():
    batch = random_batch(0)
    with pytest.raises(ValueError, match="no reference log-probs"):
        policy_loss(replace(batch, ref_logprobs=None), counts_of(batch), GrpoConfig(kl_beta=0.1))
    with pytest.raises(ValueError, match="global counts 1 tokens"):
        policy_loss(batch, LossCounts(1, 4), GrpoConfig())
    with pytest.raises(ValueError, match="shape"):
        policy_loss(replace(batch, mask=batch.mask[:, 1:]), counts_of(batch), GrpoConfig())
    with pytest.raises(ValueError, match="row_mean"):
        policy_loss(batch, counts_of(batch), GrpoConfig(aggregation="row_mean"))


def test_pitfall_08_mismatch_over_current_tokens_by_hand():
    """k3(r) = r - 1 - log r at r = 2 and 1/2; the stale token's gap counts in neither."""
    gap = torch.tensor([[math.log(2.0), 9.0], [-math.log(2.0), 0.0]], dtype=torch.float64)
    current = torch.tensor([[True, False], [True, False]])
    sums = current_mismatch_sums(gap, current)
    assert sums["current_tokens"] == 2.0
    k3 = [2 - 1 - math.log(2.0), 0.5 - 1 + math.log(2.0)]
    assert sums["current_mismatch_kl_sum"] == pytest.approx(sum(k3))
    averaged = mean_metrics(sums)
    assert averaged["mismatch_kl_current"] == pytest.approx(sum(k3) / 2)
    nothing = current_mismatch_sums(gap, torch.zeros_like(current))
    assert mean_metrics(nothing)["mismatch_kl_current"] is None
