"""A learner continues from its saved state as if it had never stopped."""

import pytest
from learner_scenarios import STAGES, STATE_OF_ONE_RANK

pytestmark = pytest.mark.stack

RUNS = [
    *(("alone", f"float32 zero {stage}") for stage in STAGES),
    *(("alone", f"bfloat16 zero {stage}") for stage in (0, 2)),
    *(("pair", f"float32 zero {stage}") for stage in STAGES),
]


@pytest.mark.parametrize(("world", "name"), RUNS)
def test_continued_equals_uninterrupted_to_the_bit(request, world, name):
    for rank in request.getfixturevalue(world).ranks:
        uninterrupted, continued = rank[name], rank[f"{name}, continued"]
        assert continued["export"] == uninterrupted["export"]
        assert continued["end"] == uninterrupted["end"]
        assert continued["end"].weights != continued["export"].weights
        reports = continued["train_on"]["reports"]
        assert reports == uninterrupted["train_on"]["reports"]


@pytest.mark.parametrize(("world", "name"), RUNS)
def test_state_holds_no_base_weights(request, world, name, tiny_dir):
    """Adapter, its master copy and two moments, in at most 4 bytes each, and some bookkeeping."""
    ours = request.getfixturevalue(world)[name]
    base = (tiny_dir / "model.safetensors").stat().st_size
    assert sum(len(content) for content in ours["save"].values()) < base / 100
    assert all("lora_" in saved for saved in ours["saved_names"])


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_state_names_every_adapter_tensor(alone, stage):
    names = alone[f"float32 zero {stage}"]["saved_names"]
    assert len(names) == 8  # two layers, two modules, A and B


def test_state_of_another_world_size_is_refused(alone, pair):
    assert alone["float32 zero 2"]["save"].items() >= STATE_OF_ONE_RANK.items()
    for rank in pair.ranks:
        assert rank["state of one rank"]["refusal"] == (
            "ValueError: the learner's state was saved with learner.world_size=1 and cannot be "
            "continued with learner.world_size=2"
        )


class Engine:
    """As much of an engine as a refused state needs."""

    world_size = 1

    def zero_optimization_stage(self):
        return 2


def test_state_of_another_zero_stage_is_refused():
    from actors.learner.state import load_state

    files = {"layout.json": b'{"learner.world_size": 1, "learner.zero_stage": 0}'}
    with pytest.raises(ValueError, match=r"learner\.zero_stage=0 .* learner\.zero_stage=2"):
        load_state(Engine(), files)


def test_state_without_a_layout_is_refused():
    from actors.learner.state import load_state

    with pytest.raises(ValueError, match=r"no layout\.json .*'weights\.pt'"):
        load_state(Engine(), {"weights.pt": b""})
