"""Rules over several keys: values that are fine alone and impossible together."""

import math
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from rl.config.errors import ConfigError, wrong
from rl.config.schema import Config

# Tokens of a dialogue that are not sampled turns: the system block, the opening request and the
# chat template's markers. The bundled openings take under 30 tokens; markers about 10 a turn.
OPENING_RESERVE_TOKENS = 256
_CHARACTERS_PER_TOKEN = 3  # a cautious estimate for a system prompt, before any tokenizer is read


def trained_seat_samples_everything(config: Config) -> Iterator[ConfigError]:
    """Ratios are biased when a trained seat samples from a truncated distribution (pitfall 7)."""
    seat = config.train.seat
    sampling = {"assistant": config.assistant, "user": config.user}[seat]
    why = f"the {seat} seat is trained, so it"
    if sampling.top_p != 1:
        yield wrong(f"{seat}.top_p", sampling.top_p, f"{why} samples from everything: expected 1")
    if sampling.top_k != -1:
        yield wrong(f"{seat}.top_k", sampling.top_k, f"{why} samples from everything: expected -1")
    if sampling.temperature <= 0:
        yield wrong(
            f"{seat}.temperature", sampling.temperature, f"{why} explores: expected greater than 0"
        )


def adapters_fit(config: Config) -> Iterator[ConfigError]:
    """S + 2 versions of the trained seat live at once (the oldest in use … the one arriving)."""
    frozen = 1 if config.discovery.user_adapter else 0
    staleness = config.train.staleness
    needed = staleness + 2 + frozen
    if config.rollout.max_loras < needed:
        yield wrong(
            "rollout.max_loras",
            config.rollout.max_loras,
            f"expected at least {needed}: 1 trained seat × (train.staleness={staleness} + 2) "
            f"+ {frozen} frozen adapters",
        )


def dialogue_fits_context(config: Config) -> Iterator[ConfigError]:
    """All turns at full length, with the opening, must fit the model's context."""
    turns, context = config.discovery.assistant_turns, config.model.context_tokens
    prompt = math.ceil(len(config.model.system_prompt) / _CHARACTERS_PER_TOKEN)
    reserve = OPENING_RESERVE_TOKENS + prompt
    needed = turns * (config.assistant.max_tokens + config.user.max_tokens) + reserve
    if needed > context:
        yield wrong(
            "model.context_tokens",
            context,
            f"expected at least {needed}: discovery.assistant_turns={turns} × "
            f"(assistant.max_tokens={config.assistant.max_tokens} + "
            f"user.max_tokens={config.user.max_tokens}) + {reserve} for the opening",
        )


def groups_can_be_used(config: Config) -> Iterator[ConfigError]:
    """A group never reaches a minimum size above K."""
    size, minimum = config.grpo.group_size, config.grpo.min_group_size
    if minimum > size:
        yield wrong("grpo.min_group_size", minimum, f"expected 2 to grpo.group_size={size}")


def window_matches_horizon(config: Config) -> Iterator[ConfigError]:
    """A window credits later turns; on-policy, the replies that are not committed have none."""
    horizon, window = config.discovery.horizon, config.discovery.window
    if horizon == "window":
        yield wrong(
            "discovery.horizon",
            horizon,
            "expected turn: GRPO compares all replies of a turn, and those that the dialogue does "
            "not go on with have no later turns to be credited for",
        )
    elif window != 0:
        yield wrong("discovery.window", window, f"expected 0 with discovery.horizon={horizon}")


def adapter_has_targets(config: Config) -> Iterator[ConfigError]:
    """LoRA needs at least one named layer, each once."""
    targets = config.lora.target_modules
    if not targets or not all(target.strip() for target in targets):
        yield wrong("lora.target_modules", targets, "expected names of layers, such as [q_proj]")
    elif len(set(targets)) < len(targets):
        yield wrong("lora.target_modules", targets, "expected each name once")


def head_adapter_is_trainable(config: Config) -> Iterator[ConfigError]:
    """Under ZeRO 3 ranks with different token counts call such a head a different number of times.

    Each call is a collective there, so the ranks would wait for each other.
    """
    learner, targets = config.learner, config.lora.target_modules
    heads = [target for target in targets if target.split(".")[-1] == "lm_head"]
    if heads and learner.zero_stage == 3 and learner.world_size > 1:
        yield wrong(
            "lora.target_modules",
            targets,
            f"expected no {heads[0]} with learner.zero_stage=3 and "
            f"learner.world_size={learner.world_size}; learner.zero_stage=2 allows it",
        )


def calibration_has_a_constraint(config: Config) -> Iterator[ConfigError]:
    """Without an answer to a constraint, calibrated groups have nothing to train on (spec. §4)."""
    grpo, seat = config.grpo, config.train.seat
    if seat != "assistant":
        return
    why = f"with train.seat={seat}, whose replies are under no constraint"
    if grpo.calibration != "quality_only":
        yield wrong("grpo.calibration", grpo.calibration, f"expected quality_only {why}")
    if grpo.clamp_violators:
        yield wrong("grpo.clamp_violators", True, f"expected false {why}")
    if grpo.skip_all_violating:
        yield wrong("grpo.skip_all_violating", True, f"expected false {why}")


def betas_are_two_fractions(config: Config) -> Iterator[ConfigError]:
    """AdamW's two decay rates."""
    betas = config.optimizer.betas
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        yield wrong("optimizer.betas", betas, "expected two numbers, each at least 0 and below 1")


def tasks_are_named(config: Config) -> Iterator[ConfigError]:
    """Something must be trained on."""
    if not config.tasks.files and not config.tasks.domains:
        yield wrong("tasks.domains", [], "expected a domain, or files in tasks.files")


def model_path_matches_source(config: Config) -> Iterator[ConfigError]:
    """A path is needed with ``source=path`` and would be ignored with another source."""
    source, path = config.model.source, config.model.path
    if source == "path" and not path:
        yield wrong("model.path", path, "expected a folder or a hub id with model.source=path")
    if source != "path" and path:
        yield wrong("model.path", path, f"expected none unless model.source=path (it is {source})")


def user_adapter_is_used(config: Config) -> Iterator[ConfigError]:
    """A scripted user has no model, hence no adapter."""
    adapter, user_turn = config.discovery.user_adapter, config.discovery.user_turn
    if adapter and user_turn != "vllm":
        yield wrong(
            "discovery.user_adapter", adapter, f"expected none with discovery.user_turn={user_turn}"
        )


def devices_match(config: Config) -> Iterator[ConfigError]:
    """NCCL and tensor parallelism need GPUs."""
    learner, rollout = config.learner, config.rollout
    if learner.backend == "nccl" and learner.gpus <= 0:
        yield wrong("learner.backend", "nccl", "expected gloo with learner.gpus=0")
    if rollout.tensor_parallel > 1 and rollout.gpus != rollout.tensor_parallel:
        yield wrong(
            "rollout.tensor_parallel",
            rollout.tensor_parallel,
            f"expected rollout.gpus={rollout.gpus:g} GPUs a worker, or 1",
        )


def one_run_folder(config: Config) -> Iterator[ConfigError]:
    """A continued run goes on in its own folder, and is never emptied."""
    run = config.run
    if run.resume and run.dir:
        yield wrong("run.dir", run.dir, f"expected none with run.resume={run.resume}")
    if run.resume and run.overwrite:
        yield wrong("run.overwrite", True, f"expected false with run.resume={run.resume}")


def run_name_is_a_file_name(config: Config) -> Iterator[ConfigError]:
    """The run's folder and its log are called by it."""
    if not re.fullmatch(r"\w[\w. -]{0,99}", config.run.name):
        yield wrong(
            "run.name",
            config.run.name,
            "expected 1 to 100 letters, digits, or '_', '.', '-', ' ', the first a letter or digit",
        )


def llm_judge_has_an_endpoint(config: Config) -> Iterator[ConfigError]:
    """A language model as judge is reached over HTTP."""
    judge = config.judge
    if judge.backend == "llm" and not _is_base_url(judge.endpoint):
        yield wrong(
            "judge.endpoint",
            judge.endpoint,
            "expected a base URL such as http://127.0.0.1:8000/v1 with judge.backend=llm",
        )
    if judge.backend != "llm" and judge.endpoint:
        yield wrong("judge.endpoint", judge.endpoint, "expected none without judge.backend=llm")


def _is_base_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, a bracket that is left open
        return False
