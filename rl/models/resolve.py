"""From the configuration's model section to something that vLLM and transformers load."""

from pathlib import Path

from rl.config.schema import ModelConfig
from rl.models.embedded import SMOLLM2, prepare_smollm2
from rl.models.errors import ModelError
from rl.models.tiny import prepare_tiny

SOURCES = ("package", "tiny", "path")

# One of these sets makes a tokenizer; one of these patterns holds weights.
_TOKENIZERS = (("tokenizer.json",), ("tokenizer.model",), ("vocab.json", "merges.txt"))
_WEIGHTS = ("*.safetensors", "*.bin")


def resolve_model(model: ModelConfig) -> Path | str:
    """Return the model's folder, prepared when it comes from a package, or its hub id as it is.

    Raises:
        ModelError: an unknown source or package model, an empty path, or a local folder that is
            missing or incomplete; no model is loaded to find out.
    """
    if model.source == "package":
        if model.name != SMOLLM2:
            raise ModelError(
                f"model.name={model.name!r}: no package holds this model; allowed with "
                f"model.source=package: {SMOLLM2}"
            )
        return prepare_smollm2()
    if model.source == "tiny":
        return prepare_tiny()
    if model.source == "path":
        return _resolve_path(model.path)
    raise ModelError(f"model.source={model.source!r}: allowed are {', '.join(SOURCES)}")


def _resolve_path(path: str) -> Path | str:
    if not path.strip():
        raise ModelError("model.path is empty: model.source=path needs a folder or a hub id")
    folder = Path(path).expanduser()
    if folder.is_dir():
        missing = missing_files(folder)
        if missing:
            raise ModelError(f"model.path={path}: the folder lacks {', '.join(missing)}")
        return folder.absolute()
    if folder.exists():
        raise ModelError(f"model.path={path}: this is a file; a model is a folder or a hub id")
    if _looks_local(path):
        raise ModelError(f"model.path={path}: no such folder")
    return path


def missing_files(folder: Path) -> list[str]:
    """Return what a model folder lacks, in words; empty when it has config, weights, tokenizer."""
    missing = []
    if not (folder / "config.json").is_file():
        missing.append("config.json")
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        missing.append(f"weights ({' or '.join(_WEIGHTS)})")
    if not any(all((folder / name).is_file() for name in names) for names in _TOKENIZERS):
        missing.append(f"a tokenizer ({' or '.join('+'.join(names) for names in _TOKENIZERS)})")
    return missing


def _looks_local(path: str) -> bool:
    """Tell a folder's path from a hub id, which is ``name`` or ``owner/name`` and no more."""
    return path.startswith((".", "/", "~")) or path.count("/") > 1 or path.endswith("/")
