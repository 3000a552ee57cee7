"""Composition of configs/ and the command line, and its one-line errors."""

import dataclasses
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rl.config.load as load_module
from rl.config.keys import closest_key, schema_keys, value_at
from rl.config.load import (
    DEFAULT_CHOICES,
    RESOLVED_CONFIG,
    ConfigError,
    config_to_yaml,
    describe_keys,
    load_config,
    load_resolved,
)
from rl.config.resume import RESUME_KEYS, may_change_on_resume, recorded_config
from rl.config.schema import Config
from rl.config.validate import validate

MODELS = ("smollm2", "tiny", "llama31-8b", "qwen3-8b")
HARDWARE = ("cpu", "4x4090", "8xh100", "multinode")


def message(argv, **kwargs):
    with pytest.raises(ConfigError) as caught:
        load_config(argv, **kwargs)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_default_is_the_small_true_run():
    config = load_config([])
    assert (config.recipe, config.hardware, config.model.source) == ("discover", "cpu", "package")
    assert (config.train.steps, config.train.episodes_per_step, config.train.staleness) == (6, 2, 0)
    assert (config.discovery.assistant_turns, config.grpo.group_size) == (3, 4)
    assert (config.assistant.max_tokens, config.assistant.temperature) == (48, 1.0)
    assert (config.lora.rank, config.lora.target_modules) == (8, ["q_proj", "v_proj"])
    assert config == load_config([f"{choice}={name}" for choice, name in DEFAULT_CHOICES.items()])


@pytest.mark.parametrize("model", ["llama31-8b", "qwen3-8b"])
def test_8b_models_on_h100s_carry_the_paper_s_values(model):
    config = load_config([f"model={model}", "hardware=8xh100"])
    assert (config.lora.rank, config.lora.alpha, config.lora.dropout) == (32, 64, 0.0)
    assert set(config.lora.target_modules) == {
        f"{name}_proj" for name in ("q", "k", "v", "o", "gate", "up", "down")
    }
    assert (config.assistant.temperature, config.assistant.max_tokens) == (0.6, 1024)
    assert (config.optimizer.learning_rate, config.optimizer.schedule) == (5e-6, "cosine")
    assert config.optimizer.max_grad_norm == 1.0
    assert (config.grpo.group_size, config.grpo.clip_high, config.grpo.kl_beta) == (4, 0.28, 0.0)
    assert (config.grpo.epsilon, config.grpo.normalise) == (1e-6, "std")
    assert (config.grpo.aggregation, config.grpo.updates_per_batch) == ("token_mean", 1)
    assert config.discovery.length_free_tokens == 250
    assert config.discovery.length_penalty == 1e-3
    assert config.discovery.assistant_turns == 5
    groups = config.train.episodes_per_step * config.discovery.assistant_turns
    assert groups >= 8 > groups - config.discovery.assistant_turns
    assert (config.learner.dtype, config.learner.zero_stage) == ("bfloat16", 2)
    assert config.learner.gradient_checkpointing
    assert not config.model.enable_thinking


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("model", MODELS)
def test_every_shipped_combination_is_valid(model, hardware):
    validate(load_config([f"model={model}", f"hardware={hardware}"]))


def test_the_listed_files_are_all_there_is(repository):
    assert {f.stem for f in (repository / "configs/model").iterdir()} == set(MODELS)
    assert {f.stem for f in (repository / "configs/hardware").iterdir()} == set(HARDWARE)


def keys_set_by(file: Path) -> set[str]:
    import yaml

    content = yaml.safe_load(file.read_text())
    return {f"{group}.{key}" for group, keys in content.items() for key in keys}


@pytest.mark.parametrize("name", HARDWARE)
def test_hardware_sets_no_training_value(name, repository):
    groups = {
        key.split(".")[0] for key in keys_set_by(repository / f"configs/hardware/{name}.yaml")
    }
    assert groups <= {"learner", "rollout", "judge", "simulator", "cluster"}


@pytest.mark.parametrize("name", MODELS)
def test_model_and_hardware_share_no_key(name, repository):
    model = keys_set_by(repository / f"configs/model/{name}.yaml")
    for hardware in HARDWARE:
        assert not model & keys_set_by(repository / f"configs/hardware/{hardware}.yaml")


def test_later_layers_win(tmp_path):
    layers = {
        "default": "train: {steps: 1, episodes_per_step: 1, staleness: 1, keep_checkpoints: 1}",
        "recipe/discover": "train: {episodes_per_step: 2, staleness: 2, keep_checkpoints: 2}",
        "model/smollm2": "train: {staleness: 3, keep_checkpoints: 3}",
        "hardware/cpu": "train: {keep_checkpoints: 4}",
    }
    write_layers(tmp_path, layers)
    train = load_config(["train.checkpoint_every=5"], tmp_path).train
    got = (train.steps, train.episodes_per_step, train.staleness)
    assert (*got, train.keep_checkpoints, train.checkpoint_every) == (1, 2, 3, 4, 5)
    assert train.max_mismatch_kl == Config().train.max_mismatch_kl


def write_layers(folder, layers):
    for name, text in layers.items():
        file = folder / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


def test_lists_replace_and_are_read_from_the_command_line():
    config = load_config(["lora.target_modules=[o_proj]", "optimizer.betas=[0.5, 1e-1]"])
    assert config.lora.target_modules == ["o_proj"]
    assert config.optimizer.betas == [0.5, 0.1]
    assert load_config(["tasks.domains=[]"]).tasks.domains == []


def test_text_is_taken_as_it_stands():
    config = load_config(["run.dir=a=b: [c", "run.name=1e-4", "model.system_prompt="])
    assert (config.run.dir, config.run.name) == ("a=b: [c", "1e-4")
    assert config.model.system_prompt == ""


def test_numbers_and_switches_are_converted():
    config = load_config(["train.steps=7", "optimizer.learning_rate=3e-4", "run.overwrite=true"])
    assert (config.train.steps, config.optimizer.learning_rate) == (7, 3e-4)
    assert config.run.overwrite is True
    assert isinstance(load_config(["judge.cpus=1"]).judge.cpus, float)


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("train.steps=two", "train.steps=two: expected a whole number"),
        ("train.steps=2.5", "train.steps=2.5: expected a whole number"),
        ("train.steps=", "train.steps=: expected a whole number"),
        ("optimizer.learning_rate=fast", "optimizer.learning_rate=fast: expected a number"),
        ("run.overwrite=maybe", "run.overwrite=maybe: expected true or false"),
        ("optimizer.betas=0.9", "optimizer.betas=0.9: expected a list of numbers"),
        ("optimizer.betas=[a,b]", "optimizer.betas=[a,b]: expected a list of numbers"),
        ("tasks.domains=svg", "tasks.domains=svg: expected a list of names, such as [a,b]"),
        ("tasks.domains=[svg", "tasks.domains=[svg: expected a list of names"),
        ("run.dir=${HOME}", "run.dir=${HOME}: '${' is not allowed"),
        ("foo", "foo: expected key=value"),
        ("=3", "=3: expected key=value"),
        ("--steps", "--steps: expected key=value"),
        ("lora=8", "lora is a group of keys: set one of them, such as lora.rank=VALUE"),
        ("train.stpes=2", "unknown key train.stpes: did you mean train.steps?"),
        ("steps=2", "unknown key steps: did you mean train.steps?"),
        ("grpo.learning_rate=1", "did you mean optimizer.learning_rate?"),
        ("lerning_rate=1", "did you mean optimizer.learning_rate?"),
        ("discovery.gate=x", "did you mean discovery.gating?"),
        ("recipe=selfplay", "recipe=selfplay: expected one of discover"),
        ("model=gpt", "model=gpt: expected one of llama31-8b, qwen3-8b, smollm2, tiny"),
        ("hardware=../cpu", "hardware=../cpu: expected one of 4x4090, 8xh100, cpu, multinode"),
    ],
)
def test_bad_argument_names_key_value_and_what_is_allowed(argument, expected):
    assert expected in message([argument])


@pytest.mark.parametrize("key", ["train.steps", "model"])
def test_a_key_given_twice_is_an_error(key):
    assert f"{key} is given twice" in message([f"{key}=3", f"{key}=4"])


@settings(deadline=None)
@given(st.text(min_size=1, max_size=30))
def test_any_unknown_key_gets_a_valid_suggestion(name):
    assert closest_key(name) in schema_keys()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train: {steps: two}", "train.steps=two: expected a whole number"),
        ("train: {stepz: 2}", "unknown key train.stepz: did you mean train.steps?"),
        ("train: 3", "train is a group of keys"),
        ("train: [", "not valid YAML"),
        ("train: {steps: 1}\ntrain: {steps: 2}", "not valid YAML"),
        ("- a", "expected keys with values"),
        ("train: {steps: null}", "train.steps=None: expected a whole number"),
        ("train: {steps: true}", "train.steps=true: expected a whole number"),
    ],
)
def test_bad_file_is_named(tmp_path, text, expected):
    write_layers(tmp_path, {"default": text})
    shown = message([], config_dir=tmp_path)
    assert shown.startswith(f"{tmp_path / 'default.yaml'}: ")
    assert expected in shown


def test_missing_folders_are_named(tmp_path):
    assert str(tmp_path / "default.yaml") in message([], config_dir=tmp_path)
    write_layers(tmp_path, {"default": ""})
    assert str(tmp_path / "recipe") in message([], config_dir=tmp_path)


def test_installed_package_data_is_found_without_a_checkout(tmp_path, monkeypatch, repository):
    (tmp_path / "rl").mkdir()
    monkeypatch.setattr(load_module.rl, "__file__", str(tmp_path / "rl" / "__init__.py"))
    monkeypatch.syspath_prepend(str(repository))
    assert load_config(["model=tiny"]).model.source == "tiny"


def test_resolved_text_reads_back_equal(tmp_path):
    config = load_config(["model=qwen3-8b", "hardware=multinode", "run.name=1e-4"])
    (tmp_path / RESOLVED_CONFIG).write_text(config_to_yaml(config))
    assert load_resolved(tmp_path) == config
    assert load_resolved(tmp_path / RESOLVED_CONFIG) == config


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="$\0"), max_size=40).filter(
    lambda text: text != "???"
)


@pytest.mark.parametrize(
    "text", ["\x85", "a\u2028b: 1e3", " \u2029 ", "1e3\x85" + "long line " * 20]
)
def test_line_breaks_that_yaml_would_fold_survive(tmp_path, text):
    config = Config()
    config.model.system_prompt, config.tasks.files = text, [text, "1e3", "null"]
    config.optimizer.learning_rate = 1e-7
    file = tmp_path / RESOLVED_CONFIG
    file.write_text(config_to_yaml(config), encoding="utf-8")
    assert load_resolved(file) == config


@settings(deadline=None, max_examples=30)
@given(name=TEXT, prompt=TEXT, rate=st.floats(allow_nan=False, allow_infinity=False))
def test_any_value_survives_the_resolved_file(tmp_path_factory, name, prompt, rate):
    config = Config()
    config.run.name, config.model.system_prompt = name, prompt
    config.optimizer.learning_rate = rate
    file = tmp_path_factory.mktemp("resolved") / RESOLVED_CONFIG
    file.write_text(config_to_yaml(config), encoding="utf-8")
    assert load_resolved(file) == config


def test_resolved_file_must_be_whole(tmp_path):
    file = tmp_path / RESOLVED_CONFIG
    file.write_text("train: {steps: 2}")
    with pytest.raises(ConfigError, match=r"config\.yaml: the key recipe is missing"):
        load_resolved(file)


def resumable(folder):
    config = load_config(["model=tiny", "train.steps=3", f"run.dir={folder}"])
    (folder / RESOLVED_CONFIG).write_text(config_to_yaml(config))
    return config


def test_resume_takes_the_run_s_own_configuration(tmp_path):
    config = resumable(tmp_path)
    resumed = load_config([f"run.resume={tmp_path}", "cluster.address=auto", "train.steps=5"])
    assert (resumed.run.resume, resumed.run.dir) == (str(tmp_path), "")
    assert (resumed.cluster.address, resumed.train.steps) == ("auto", 5)
    assert dataclasses.replace(resumed.run, resume="", dir=config.run.dir) == config.run
    assert (resumed.model, resumed.lora) == (config.model, config.lora)
    validate(resumed)


REFUSED_ON_RESUME = [
    "run.seed=1",
    "run.dir=x",
    "model=smollm2",
    "model.context_tokens=512",
    "lora.rank=4",
    "learner.world_size=2",
    "learner.zero_stage=2",
    "train.staleness=1",
    "train.steps_more=1",
    "optimizer.learning_rate=1",
]


@pytest.mark.parametrize("other", REFUSED_ON_RESUME)
def test_resume_rejects_what_would_change_the_run(tmp_path, other):
    resumable(tmp_path)
    assert message([f"run.resume={tmp_path}", other]).startswith(f"{other}: cannot be given with")


def test_resume_refusals_list_what_is_allowed(tmp_path):
    resumable(tmp_path)
    assert message([f"run.resume={tmp_path}", "lora.rank=4"]).endswith(", ".join(RESUME_KEYS))


def test_resume_may_change_deadlines_saving_and_memory(tmp_path):
    resumable(tmp_path)
    changes = {
        "judge.deadline_s": 5.0,
        "rollout.start_deadline_s": 7.0,
        "train.checkpoint_every": 3,
        "train.keep_checkpoints": 4,
        "run.wandb_mode": "disabled",
        "learner.micro_batch_tokens": 128,
    }
    resumed = load_config([f"run.resume={tmp_path}", *(f"{k}={v}" for k, v in changes.items())])
    assert {name: value_at(resumed, name) for name in changes} == changes


def test_every_resume_pattern_names_a_key():
    names = set(schema_keys())
    for pattern in RESUME_KEYS:
        assert any(may_change_on_resume(name) for name in names if fnmatch(name, pattern)), pattern
    allowed = {name for name in names if may_change_on_resume(name)}
    assert allowed == {n for n in names if any(fnmatch(n, pattern) for pattern in RESUME_KEYS)}


def test_what_a_resumed_run_records_can_be_resumed_again(tmp_path):
    config = resumable(tmp_path)
    resumed = load_config([f"run.resume={tmp_path}", "train.steps=5"])
    recorded = recorded_config(resumed)
    assert (recorded.run.dir, recorded.run.resume) == (str(tmp_path), "")
    assert (resumed.run.dir, resumed.run.resume) == ("", str(tmp_path))  # left as it was
    (tmp_path / RESOLVED_CONFIG).write_text(config_to_yaml(recorded))
    assert load_config([f"run.resume={tmp_path}"]) == resumed
    assert recorded_config(config) == config


def test_resume_needs_a_run_folder(tmp_path):
    shown = message([f"run.resume={tmp_path}"])
    assert shown == f"run.resume={tmp_path}: expected a run folder with config.yaml"


def test_every_key_is_described():
    rows = describe_keys()
    assert [row[0] for row in rows] == list(schema_keys())
    assert all(comment for _, _, _, comment in rows)
    described = {name: (kind, default, comment) for name, kind, default, comment in rows}
    assert described["train.steps"] == ("int", 6, "training steps of the whole run")
    assert described["optimizer.betas"][:2] == ("list[float]", [0.9, 0.999])
    assert described["discovery.gating"][2] == "strict (paper) | cascade (release)"
    assert described["grpo.group_size"] == ("int", 4, "K")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("run.name=???", "run.name=???: '???' is not allowed"),
        ('tasks.files=[a, "???"]', "'???' is not allowed"),
        ("run.dir=a\0b", "expected text in UTF-8, without null characters"),
        ("run.dir=a\udcff", r"run.dir='a\udcff': expected text in UTF-8"),
        ("tasks.files=" + "[" * 5000, "tasks.files"),
        ("run.resume=" + "x" * 300, "File name too long"),
    ],
)
def test_text_that_cannot_be_a_value_is_refused(text, told):
    assert told in message([text])


def test_yaml_that_is_nested_too_deeply_is_one_line(tmp_path):
    write_layers(tmp_path, {"default": "train: " + "[" * 5000})
    assert "default.yaml: not valid YAML" in message([], config_dir=tmp_path)
