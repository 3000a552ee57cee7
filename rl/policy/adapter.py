"""A LoRA adapter as files in peft's format: export from a model, write, read, load back."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

    from rl.config.schema import LoraConfig

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"

# What the same weights mean depends on these keys of peft's configuration.
_SHAPE_AND_SCALE = ("r", "lora_alpha", "use_rslora")


@dataclass(frozen=True)
class AdapterFiles:
    """The two files of a peft adapter, held in memory; ``digest`` is the SHA-256 of both."""

    version: str
    config: bytes
    weights: bytes
    digest: str

    @classmethod
    def of(cls, version: str, config: bytes, weights: bytes) -> "AdapterFiles":
        """Make files with their digest."""
        return cls(version, config, weights, adapter_digest(config, weights))


def adapter_digest(config: bytes, weights: bytes) -> str:
    """Return the SHA-256 over an adapter's configuration and weights."""
    digest = hashlib.sha256()
    for part in (config, weights):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def add_adapter(model: "PreTrainedModel", lora: "LoraConfig", seed: int) -> "PeftModel":
    """Wrap ``model`` with a fresh LoRA adapter in its dtype; B starts at zero, A from ``seed``."""
    from peft import LoraConfig as PeftLoraConfig
    from peft import get_peft_model

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(
            model,
            PeftLoraConfig(
                task_type="CAUSAL_LM",
                r=lora.rank,
                lora_alpha=lora.alpha,
                lora_dropout=lora.dropout,
                target_modules=list(lora.target_modules),
            ),
            autocast_adapter_dtype=False,
        )


def export_adapter(
    model: "PeftModel", version: str, dtype: torch.dtype, base_model: str
) -> AdapterFiles:
    """Return the adapter of ``model`` cast to ``dtype``, with peft's own state-dict names.

    ``base_model`` is written into the configuration, so that peft finds the base when the
    adapter is loaded on its own.
    """
    from peft import get_peft_model_state_dict
    from safetensors.torch import save

    # Never the base's embeddings, which peft adds of its own accord when the head has an adapter.
    state: dict[str, torch.Tensor] = get_peft_model_state_dict(model, save_embedding_layers=False)
    tensors = {name: t.detach().to("cpu", dtype).contiguous() for name, t in state.items()}
    config = model.peft_config["default"].to_dict()
    config["base_model_name_or_path"] = base_model
    config["inference_mode"] = True
    text = json.dumps(_plain(config), indent=2, sort_keys=True)
    return AdapterFiles.of(version, text.encode(), save(tensors, metadata={"format": "pt"}))


def import_adapter(model: "PeftModel", files: AdapterFiles) -> None:
    """Put the weights of ``files`` into the adapter of ``model``.

    Raises:
        ValueError: another rank or scale, or any tensor missing or left over.
    """
    from peft import set_peft_model_state_dict
    from safetensors.torch import load

    saved, current = json.loads(files.config), model.peft_config["default"].to_dict()
    for key in _SHAPE_AND_SCALE:
        if saved.get(key) != current[key]:
            raise ValueError(
                f"adapter {files.version} does not fit the model: "
                f"{key} is {saved.get(key)}, expected {current[key]}"
            )
    result = set_peft_model_state_dict(model, load(files.weights))
    missing = [name for name in result.missing_keys if "lora_" in name]
    if missing or result.unexpected_keys:
        raise ValueError(
            f"adapter {files.version} does not fit the model: "
            f"missing {missing[:3]}, unexpected {list(result.unexpected_keys)[:3]}"
        )


def write_adapter(files: AdapterFiles, folder: Path) -> None:
    """Write ``files`` into the new ``folder``; it must not exist, since versions are immutable."""
    folder.mkdir(parents=True)
    (folder / CONFIG_FILE).write_bytes(files.config)
    (folder / WEIGHTS_FILE).write_bytes(files.weights)


def read_adapter(folder: Path, version: str) -> AdapterFiles:
    """Read the adapter saved in ``folder``."""
    return AdapterFiles.of(
        version, (folder / CONFIG_FILE).read_bytes(), (folder / WEIGHTS_FILE).read_bytes()
    )


def _plain(value: Any) -> Any:
    """Turn peft's sets and enums into what JSON can hold, in a stable order."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(_plain(v) for v in value)
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(getattr(value, "value", value))
