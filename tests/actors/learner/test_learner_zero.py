"""Every ZeRO stage is the same training, and gathers no more than it must."""

import pytest
import torch
from learner_scenarios import MODULES, RANK, STAGES
from safetensors.torch import load

pytestmark = pytest.mark.stack

# The largest move of a parameter in these updates is 0.05; float32 changes a thousandth of it.
LARGEST_MOVE, TOLERANCE = 0.05, 5e-5


def adapter(scenario, call):
    return load(scenario[call].weights)


def gaps(ours, expected):
    """All differences in one vector, in a fixed order."""
    names = sorted(expected)
    return torch.cat([(ours[n].float() - expected[n].float()).flatten() for n in names])


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("stage", STAGES)
def test_stage_trains_as_zero_0_on_one_rank_does(request, alone, stage, ranks):
    world = request.getfixturevalue("alone" if ranks == 1 else "pair")
    expected = alone["float32 zero 0"]
    for rank in world.ranks:
        ours = rank[f"float32 zero {stage}"]
        moved = gaps(adapter(ours, "export"), adapter(ours, "start")).abs().max()
        assert moved == pytest.approx(LARGEST_MOVE, rel=0.05)
        for call in ("export", "end"):
            assert gaps(adapter(ours, call), adapter(expected, call)).abs().max() < TOLERANCE
        for call in ("train", "train_on"):
            norms = [report.grad_norm for report in ours[call]["reports"]]
            wanted = [report.grad_norm for report in expected[call]["reports"]]
            assert norms == pytest.approx(wanted, rel=2e-3)


@pytest.mark.parametrize("stage", STAGES)
def test_ranks_hold_the_same_adapter(pair, stage):
    first, second = (rank[f"float32 zero {stage}"] for rank in pair.ranks)
    for call in ("start", "export", "end"):
        assert first[call] == second[call]
    assert first["probe"] == second["probe"]
    assert first["canary"] == second["canary"]


def test_bfloat16_without_zero_trains_as_with_it(alone):
    """DeepSpeed's wrapper for this case makes a step of its own when it starts."""
    plain, zero, precise = (
        alone[name] for name in ("bfloat16 zero 0", "bfloat16 zero 2", "float32 zero 0")
    )
    assert adapter(plain, "start").keys() == adapter(zero, "start").keys()
    assert plain["start"].weights == zero["start"].weights
    wanted = gaps(adapter(precise, "export"), adapter(precise, "start"))
    for ours in (plain, zero):
        moved = gaps(adapter(ours, "export"), adapter(ours, "start"))
        assert moved.abs().mean() == pytest.approx(wanted.abs().mean().item(), rel=0.03)
        assert torch.cosine_similarity(moved, wanted, dim=0) > 0.93


def test_pitfall_24_publishing_gathers_adapter_parameters_only(pair, tiny_dir):
    """A forward pass under ZeRO 3 gathers the whole model; an export only what it writes."""
    from transformers import AutoConfig

    hidden = AutoConfig.from_pretrained(tiny_dir).hidden_size
    layers, pairs = 2, len(MODULES)
    adapter_elements = layers * pairs * 2 * RANK * hidden  # A and B, square projections
    ours = pair["float32 zero 3"]
    assert sum(t.numel() for t in adapter(ours, "export").values()) == adapter_elements
    assert ours["gathered_by_export"] == adapter_elements
    assert ours["gathered_by_probe"] > 1000 * adapter_elements
    for stage in (0, 1, 2):
        assert pair[f"float32 zero {stage}"]["gathered_by_export"] == 0
