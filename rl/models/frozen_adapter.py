"""Checks a frozen LoRA adapter against the base model: configuration and tensor shapes only."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl.config.errors import ConfigError, wrong
from rl.models.inspect import ModelFacts
from rl.policy.adapter import CONFIG_FILE, WEIGHTS_FILE

KEY = "discovery.user_adapter"

_PREFIX = "base_model.model."  # peft's name of the base model, before the base's own names
_SIDES = (".lora_A.weight", ".lora_B.weight")

# peft's features that vLLM refuses, or applies without a word as if they were not there.
_UNSUPPORTED = (
    "use_dora",
    "lora_bias",
    "modules_to_save",
    "rank_pattern",
    "alpha_pattern",
    "target_parameters",
)


def check_frozen_adapter(folder: Path, facts: ModelFacts, max_rank: int) -> None:
    """Check that vLLM can serve the peft adapter in ``folder`` on the model that ``facts`` tell of.

    ``max_rank`` is the largest rank that vLLM is started for. Only the weights' header is read.

    Raises:
        ConfigError: it cannot, in one line.
    """
    rank = _check_config(folder, max_rank)
    shapes = _shapes(folder)
    if not shapes:
        raise wrong(KEY, folder, f"{WEIGHTS_FILE} holds no LoRA weights")
    for name, shape in shapes.items():
        _check_shape(folder, name, shape, facts.linear_layers, rank)


def _check_config(folder: Path, max_rank: int) -> int:
    """Return the adapter's rank."""
    try:
        config: Any = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise wrong(KEY, folder, f"{CONFIG_FILE} cannot be read: {error}") from None
    if not isinstance(config, dict) or config.get("peft_type", "LORA") != "LORA":
        raise wrong(KEY, folder, f"{CONFIG_FILE} describes no LoRA adapter")
    for name in _UNSUPPORTED:
        if config.get(name):
            raise wrong(KEY, folder, f"vLLM does not serve {name}={config[name]}")
    if config.get("bias", "none") != "none":
        raise wrong(KEY, folder, f"vLLM does not serve bias={config['bias']}; expected none")
    rank = config.get("r")
    if not isinstance(rank, int) or not 1 <= rank <= max_rank:
        raise wrong(
            KEY, folder, f"its rank r={rank}; expected 1 to {max_rank}, which lora.rank decides"
        )
    if not isinstance(config.get("lora_alpha"), int | float):
        raise wrong(KEY, folder, f"{CONFIG_FILE} has no number lora_alpha")
    return rank


def _shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / WEIGHTS_FILE, framework="numpy") as file:
            names = file.keys()
            return {name: tuple(file.get_slice(name).get_shape()) for name in names}
    except (OSError, SafetensorError) as error:
        raise wrong(KEY, folder, f"{WEIGHTS_FILE} cannot be read: {error}") from None


def _check_shape(
    folder: Path,
    name: str,
    shape: tuple[int, ...],
    layers: Mapping[str, tuple[int, int]],
    rank: int,
) -> None:
    side = next((side for side in _SIDES if name.endswith(side)), "")
    layer = name.removesuffix(side).removeprefix(_PREFIX)
    if not side or layer not in layers:
        raise wrong(KEY, folder, f"{name} belongs to no linear layer of the model")
    inputs, outputs = layers[layer]
    expected = (rank, inputs) if side == _SIDES[0] else (outputs, rank)
    if shape != expected:
        raise _misfit(folder, name, shape, expected)


def _misfit(
    folder: Path, name: str, shape: tuple[int, ...], expected: tuple[int, int]
) -> ConfigError:
    return wrong(KEY, folder, f"{name} has shape {list(shape)}; the model needs {list(expected)}")
