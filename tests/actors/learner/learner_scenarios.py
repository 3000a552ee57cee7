"""What the learner's test processes do: one engine after another, each with a list of calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from learner_batch import batch_of

from actors.learner.group import LearnerGroup
from actors.learner.options import LearnerOptions
from rl.config.schema import Config
from rl.grpo.batch import TrainingSample
from rl.grpo.loss import LossCounts
from rl.policy.adapter import AdapterFiles

RANK, ALPHA, MODULES = 4, 8, ("q_proj", "v_proj")
TEMPERATURE = 0.7
PROBE = tuple(range(100, 124))
STAGES = (0, 1, 2, 3)
# What one rank saves of its layout (a test compares); the rest is not looked at before it.
STATE_OF_ONE_RANK = {"layout.json": b'{"learner.world_size": 1, "learner.zero_stage": 2}'}

# One update whose gradient is not cut, every sample counting the same.
ONE_UPDATE = {
    "grpo__aggregation": "sequence_mean",
    "optimizer__learning_rate": 1e-3,
    "optimizer__max_grad_norm": 1e6,
}
# Three updates a batch, far enough apart that the clip acts, with everything else switched on.
THREE_UPDATES = {
    "grpo__updates_per_batch": 3,
    "grpo__kl_beta": 0.1,
    "optimizer__learning_rate": 2e-2,
    "optimizer__warmup_steps": 2,
    "optimizer__max_grad_norm": 0.05,
    "optimizer__weight_decay": 0.1,
}


@dataclass(frozen=True)
class Result:
    """Stands for what an earlier call returned, as an argument of a later one."""

    scenario: str
    call: str


@dataclass(frozen=True)
class Scenario:
    """One learner engine and the calls made on it, by the label their result is kept under.

    A call is the name of a method of ``learner_worker.Session`` and its arguments.
    """

    name: str
    options: LearnerOptions
    calls: Mapping[str, tuple[Any, ...]]
    adapter: AdapterFiles | Result | None = None


@dataclass(frozen=True)
class Setting:
    """What all scenarios of one job share."""

    model: str
    adapter: AdapterFiles
    samples: tuple[TrainingSample, ...]
    world_size: int

    def options(self, **changes: Any) -> LearnerOptions:
        """Options with changes to ``section.key``, written ``section__key``."""
        return learner_options(self.model, learner__world_size=self.world_size, **changes)

    def scenario(self, name: str, options: LearnerOptions, **calls: tuple[Any, ...]) -> Scenario:
        """An engine that begins with the shared adapter."""
        return Scenario(name, options, calls, self.adapter)


def learner_options(model: str, **changes: Any) -> LearnerOptions:
    """Small micro-batches and chunks, a constant learning rate, and ``changes``."""
    config = Config()
    config.lora.rank, config.lora.alpha, config.lora.target_modules = RANK, ALPHA, list(MODULES)
    config.learner.micro_batch_tokens = 100
    config.learner.logprob_chunk_tokens = 7
    config.optimizer.schedule = "constant"
    for name, value in changes.items():
        section, key = name.split("__")
        if not hasattr(getattr(config, section), key):
            raise AttributeError(f"{section}.{key} is no configuration key")
        setattr(getattr(config, section), key, value)
    return replace(LearnerOptions.from_config(config, model), temperature=TEMPERATURE)


def train(
    samples: Sequence[TrainingSample], options: LearnerOptions, first_update: int = 0
) -> tuple[Any, ...]:
    """The call that the group sends to every rank for ``samples``."""
    batch = batch_of(samples)
    group = LearnerGroup([None] * options.learner.world_size, options)
    counts = LossCounts(batch.trained_tokens, len(batch.samples))
    return ("train", batch.samples, group.partition(batch), counts, first_update)


def one_rank(setting: Setting) -> list[Scenario]:
    """Everything that one process can show."""
    exact = setting.options(learner__dtype="float64", **ONE_UPDATE)
    dropout = setting.options(lora__dropout=0.5, **THREE_UPDATES)
    return [
        setting.scenario(
            "exact one update",
            exact,
            logprobs=("logprobs", setting.samples),
            train=train(setting.samples, exact),
            parameters=("parameters",),
        ),
        _two_batches(setting),
        _one_batch(setting, "exact, one micro-batch", learner__micro_batch_tokens=10_000),
        _one_batch(setting, "exact, one sample each", learner__micro_batch_tokens=1),
        _one_batch(setting, "exact, no checkpointing", learner__gradient_checkpointing=False),
        *_stages(setting, "float32", STAGES),
        *_stages(setting, "bfloat16", (0, 2)),
        _nothing_to_train(setting),
        _lone_sample(setting, 0),
        setting.scenario(
            "dropout",
            dropout,
            probe=("probe", PROBE),
            logprobs=("logprobs", setting.samples),
            train=train(setting.samples, dropout),
        ),
    ]


def two_ranks(setting: Setting) -> list[Scenario]:
    """What needs a second rank, and what one rank did, again on two."""
    options = setting.options(learner__zero_stage=2, **THREE_UPDATES)
    return [
        _one_batch(setting, "exact"),
        *_stages(setting, "float32", STAGES),
        *(_lone_sample(setting, stage) for stage in STAGES),
        setting.scenario(
            "state of one rank", options, refusal=("refusal", "load", STATE_OF_ONE_RANK)
        ),
    ]


def _one_batch(setting: Setting, name: str, **changes: Any) -> Scenario:
    options = setting.options(**({"learner__dtype": "float64"} | THREE_UPDATES | changes))
    return setting.scenario(
        name, options, train=train(setting.samples, options), parameters=("parameters",)
    )


def _two_batches(setting: Setting) -> Scenario:
    """The second batch shows the optimiser's momentum and the end of the warm-up."""
    first = _one_batch(setting, "exact")
    more = {
        "train_on": train(setting.samples, first.options, first_update=3),
        "parameters_after": ("parameters",),
    }
    return replace(first, calls={**first.calls, **more})


def _stages(setting: Setting, dtype: str, stages: Sequence[int]) -> list[Scenario]:
    """Each ZeRO stage trains, shows what it holds, and goes on from its saved state."""
    scenarios = []
    for stage in stages:
        options = setting.options(learner__dtype=dtype, learner__zero_stage=stage, **THREE_UPDATES)
        name = f"{dtype} zero {stage}"
        train_on = train(setting.samples, options, first_update=3)
        scenarios += [
            setting.scenario(
                name,
                options,
                start=("export", "assistant@0.0"),
                logprobs=("logprobs", setting.samples),
                train=train(setting.samples, options),
                export=("export", "assistant@0.1"),
                gathered_by_export=("gathered", "export", "assistant@0.1"),
                gathered_by_probe=("gathered", "probe", PROBE),
                probe=("probe", PROBE),
                canary=("canary", "assistant@0.9", 1, PROBE),
                export_after_canary=("export", "assistant@0.1"),
                logprobs_after=("logprobs", setting.samples),
                save=("save",),
                saved_names=("saved_names", Result(name, "save")),
                train_on=train_on,
                end=("export", "assistant@0.2"),
            ),
            Scenario(
                f"{name}, continued",
                options,
                {
                    "load": ("load", Result(name, "save")),
                    "export": ("export", "assistant@0.1"),
                    "train_on": train_on,
                    "end": ("export", "assistant@0.2"),
                },
                Result(name, "export"),
            ),
        ]
    return scenarios


def _nothing_to_train(setting: Setting) -> Scenario:
    """A batch without trained tokens between two others; the optimiser has momentum by then."""
    options = setting.options(**THREE_UPDATES)
    untrained = [replace(s, mask=(0,) * len(s.ids)) for s in setting.samples]
    return setting.scenario(
        "nothing to train",
        options,
        train=train(setting.samples, options),
        before=("export", "assistant@0.1"),
        no_samples=train([], options, first_update=3),
        no_tokens=train(untrained, options, first_update=3),
        after=("export", "assistant@0.1"),
        train_on=train(setting.samples, options, first_update=3),
        end=("export", "assistant@0.2"),
    )


def _lone_sample(setting: Setting, stage: int) -> Scenario:
    """A batch of one sample: on two ranks one of them has nothing."""
    options = setting.options(learner__zero_stage=stage, **THREE_UPDATES)
    return setting.scenario(
        f"lone sample zero {stage}",
        options,
        train=train(setting.samples[:1], options),
        export=("export", "assistant@0.1"),
    )


def exact_norm(norm: torch.nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    """RMS normalisation in its input's precision; transformers' own goes through float32."""
    variance = hidden.square().mean(-1, keepdim=True)
    return norm.weight * hidden * torch.rsqrt(variance + norm.variance_epsilon)
