"""Each rule rejects what cannot run, naming key, value and what is allowed."""

import copy
import dataclasses
from pathlib import Path

import pytest

from rl.config.choices import CHOICES
from rl.config.keys import schema_keys, value_at
from rl.config.load import load_config
from rl.config.ranges import RANGES
from rl.config.schema import Config
from rl.config.validate import RULES, ConfigError, validate

DEFAULT = load_config([])


def changed(**values):
    """Return the default configuration with dotted keys (``__`` for the dot) set, unchecked."""
    config = copy.deepcopy(DEFAULT)
    for name, value in values.items():
        *groups, leaf = name.split("__")
        setattr(value_at(config, ".".join(groups)) if groups else config, leaf, value)
    return config


def error(**values):
    with pytest.raises(ConfigError) as caught:
        validate(changed(**values))
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_default_is_valid():
    validate(load_config([]))
    validate(Config())


@pytest.mark.parametrize("key", ["top_p", "top_k", "temperature"])
def test_pitfall_07_trained_seat_samples_from_the_whole_distribution(key):
    value = {"top_p": 0.95, "top_k": 50, "temperature": 0.0}[key]
    assert error(**{f"assistant__{key}": value}).startswith(f"assistant.{key}={value}: ")


def test_pitfall_07_untrained_seat_may_truncate():
    validate(changed(user__top_p=0.9, user__top_k=20, user__temperature=0.0))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"grpo__group_size": 1}, "grpo.group_size=1: expected at least 2"),
        ({"train__staleness": -1}, "train.staleness=-1: expected at least 0"),
        ({"train__steps": 0}, "train.steps=0: expected at least 1"),
        ({"train__episodes_per_step": 0}, "train.episodes_per_step=0: expected at least 1"),
        ({"user__temperature": -0.1}, "user.temperature=-0.1: expected at least 0"),
        ({"user__top_k": 0}, "user.top_k=0: expected -1 (off) or at least 1"),
        ({"assistant__max_tokens": 0}, "assistant.max_tokens=0: expected at least 1"),
        ({"lora__rank": 0}, "lora.rank=0: expected at least 1 and at most 512"),
        ({"lora__target_modules": []}, "lora.target_modules=[]: expected names"),
        ({"lora__target_modules": ["q_proj", " "]}, "expected names of layers"),
        ({"lora__target_modules": ["q_proj", "q_proj"]}, "expected each name once"),
        ({"grpo__clip_low": 1.0}, "grpo.clip_low=1.0: expected greater than 0 and less than 1"),
        ({"grpo__clip_low": 0.0}, "grpo.clip_low=0.0: expected greater than 0"),
        ({"grpo__clip_high": 0.0}, "grpo.clip_high=0.0: expected greater than 0"),
        ({"grpo__min_group_size": 1}, "grpo.min_group_size=1: expected at least 2"),
        ({"grpo__min_group_size": 5}, "grpo.min_group_size=5: expected 2 to grpo.group_size=4"),
        ({"optimizer__learning_rate": -1e-5}, "optimizer.learning_rate=-1e-05: expected at least"),
        ({"optimizer__learning_rate": float("nan")}, "learning_rate=nan: expected a finite number"),
        ({"judge__deadline_s": float("inf")}, "judge.deadline_s=inf: expected a finite number"),
        ({"optimizer__betas": [0.9, float("nan")]}, "optimizer.betas=[0.9,nan]: expected a finite"),
        ({"optimizer__betas": [0.9]}, "optimizer.betas=[0.9]: expected two numbers"),
        ({"optimizer__betas": [0.9, 1.0]}, "optimizer.betas=[0.9,1.0]: expected two numbers"),
        ({"optimizer__betas": [-0.1, 0.9]}, "optimizer.betas=[-0.1,0.9]: expected two numbers"),
        ({"rollout__request_deadline_s": -3.0}, "rollout.request_deadline_s=-3.0: expected great"),
        ({"learner__zero_stage": 4}, "learner.zero_stage=4: expected one of 0, 1, 2, 3"),
        ({"learner__backend": "nccl"}, "learner.backend=nccl: expected gloo with learner.gpus=0"),
        ({"rollout__tensor_parallel": 2}, "rollout.tensor_parallel=2: expected rollout.gpus=0"),
        ({"discovery__window": 2}, "discovery.window=2: expected 0 with discovery.horizon=turn"),
        (
            {"discovery__horizon": "window"},
            "discovery.horizon=window: expected turn: GRPO compares",
        ),
        (
            {"discovery__horizon": "window", "discovery__window": 2},
            "discovery.horizon=window: expected turn",
        ),
        ({"model__source": "path"}, "model.path=: expected a folder or a hub id"),
        ({"model__path": "/x"}, "model.path=/x: expected none unless model.source=path"),
        ({"tasks__domains": []}, "tasks.domains=[]: expected a domain"),
        (
            {"discovery__user_adapter": "a", "discovery__user_turn": "scripted"},
            "discovery.user_adapter=a: expected none with discovery.user_turn=scripted",
        ),
        (
            {"grpo__calibration": "calibrated"},
            "grpo.calibration=calibrated: expected quality_only with train.seat=assistant",
        ),
        (
            {"grpo__calibration": "fixed_bonus"},
            "grpo.calibration=fixed_bonus: expected quality_only with train.seat=assistant",
        ),
        ({"grpo__clamp_violators": True}, "grpo.clamp_violators=true: expected false with train."),
        ({"grpo__skip_all_violating": True}, "grpo.skip_all_violating=true: expected false with"),
        ({"run__resume": "a", "run__dir": "b"}, "run.dir=b: expected none with run.resume=a"),
        ({"run__resume": "a", "run__overwrite": True}, "run.overwrite=true: expected false"),
    ],
)
def test_impossible_values(values, expected):
    assert expected in error(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"optimizer__learning_rate": 0.0},
        {"grpo__min_group_size": 4},
        {"learner__backend": "nccl", "learner__gpus": 1.0},
        {"rollout__tensor_parallel": 2, "rollout__gpus": 2.0},
        {"run__resume": "a"},
        {"model__source": "path", "model__path": "org/name"},
        {"tasks__domains": [], "tasks__files": ["x.jsonl"]},
    ],
)
def test_unusual_but_possible_values(values):
    validate(changed(**values))


@pytest.mark.parametrize(
    ("staleness", "adapter", "needed"), [(0, "", 2), (1, "", 3), (2, "", 4), (0, "a", 3)]
)
def test_max_loras_holds_every_live_version(staleness, adapter, needed):
    values = {"train__staleness": staleness, "discovery__user_adapter": adapter}
    validate(changed(rollout__max_loras=needed, **values))
    text = error(rollout__max_loras=needed - 1, **values)
    assert text.startswith(f"rollout.max_loras={needed - 1}: expected at least {needed}:")


def test_dialogue_must_fit_the_context():
    # 3 turns × (48 + 48) + 256 for the opening = 544; 30 characters of system prompt: 10 more
    validate(changed(model__context_tokens=544))
    assert "model.context_tokens=543: expected at least 544" in error(model__context_tokens=543)
    prompted = {"model__system_prompt": "x" * 30}
    validate(changed(model__context_tokens=554, **prompted))
    assert "expected at least 554" in error(model__context_tokens=553, **prompted)


@pytest.mark.parametrize("name", CHOICES)
def test_every_enumeration_rejects_other_words(name):
    text = error(**{name.replace(".", "__"): "other"})
    assert text.startswith(f"{name}=other: expected ")
    assert all(str(choice) in text for choice in CHOICES[name])


def test_every_enumeration_names_its_choices_in_the_schema():
    for name, choices in CHOICES.items():
        comment = schema_keys()[name].comment
        if "|" in comment:
            assert all(str(choice) in comment for choice in choices), name


@pytest.mark.parametrize("name", RANGES)
def test_every_range_rejects_numbers_below(name):
    below = -1 if schema_keys()[name].type is int else -1.0
    assert error(**{name.replace(".", "__"): below}).startswith(f"{name}={below}: expected ")


def test_every_number_has_a_range_or_a_rule_of_its_own():
    numbers = {key.name for key in schema_keys().values() if key.type in (int, float)}
    ruled = {"assistant.top_k", "user.top_k", "learner.zero_stage"}
    assert numbers - set(RANGES) == ruled


def test_each_rule_is_needed():
    """Without its rule, a broken configuration passes: no rule is a duplicate of another."""
    broken = {
        "check_choices": {"discovery__gating": "x"},
        "check_finite": {"train__max_mismatch_kl": float("inf")},
        "check_ranges": {"train__steps": 0},
        "trained_seat_samples_everything": {"assistant__top_p": 0.9},
        "adapters_fit": {"rollout__max_loras": 1},
        "dialogue_fits_context": {"model__context_tokens": 100},
        "groups_can_be_used": {"grpo__min_group_size": 9},
        "window_matches_horizon": {"discovery__window": 1},
        "adapter_has_targets": {"lora__target_modules": []},
        "head_adapter_is_trainable": {
            "lora__target_modules": ["lm_head"],
            "learner__zero_stage": 3,
            "learner__world_size": 2,
        },
        "calibration_has_a_constraint": {"grpo__calibration": "calibrated"},
        "run_name_is_a_file_name": {"run__name": "../../up"},
        "llm_judge_has_an_endpoint": {"judge__backend": "llm"},
        "betas_are_two_fractions": {"optimizer__betas": [0.1]},
        "tasks_are_named": {"tasks__domains": []},
        "model_path_matches_source": {"model__path": "x"},
        "user_adapter_is_used": {
            "discovery__user_adapter": "a",
            "discovery__user_turn": "scripted",
        },
        "devices_match": {"learner__backend": "nccl"},
        "one_run_folder": {"run__resume": "a", "run__dir": "b"},
    }
    assert list(broken) == [rule.__name__ for rule in RULES]
    for name, values in broken.items():
        config = changed(**values)
        breaking = [rule.__name__ for rule in RULES if list(rule(config))]
        assert breaking == [name]


def test_validate_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = load_config([])
    before = dataclasses.asdict(config)
    validate(config)
    assert dataclasses.asdict(config) == before
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"judge__backend": "llm", "judge__endpoint": "localhost:8000"},
            "judge.endpoint=localhost:8000: expected a base URL",
        ),
        (
            {"judge__endpoint": "http://127.0.0.1/v1"},
            "judge.endpoint=http://127.0.0.1/v1: expected none without judge.backend=llm",
        ),
    ],
)
def test_an_endpoint_belongs_to_the_llm_judge(values, told):
    assert error(**values).startswith(told)
