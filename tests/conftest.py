"""Fixtures that every test may use: prepared models and the project's shared reference data.

Child processes (Ray workers, vLLM's engine) import this checkout too, wherever pytest was started.
"""

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
pytest_plugins = ["tests.stack_fixtures"]

# Set before any test module imports a library that reads them.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("WANDB_MODE", "offline")
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray stays on the loopback address
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
)


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The shared folder beside the checkout; tests that need it skip where it is absent."""
    folder = CHECKOUT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the shared folder beside the checkout is absent")
    return folder


@pytest.fixture(scope="session")
def smollm2_dir() -> Path:
    """The prepared SmolLM2-135M-Instruct: a folder that transformers and vLLM load."""
    from rl.models.embedded import prepare_smollm2

    return prepare_smollm2()


@pytest.fixture(scope="session")
def tiny_dir() -> Path:
    """The prepared tiny random Llama with the SmolLM2 tokenizer."""
    from rl.models.tiny import prepare_tiny

    return prepare_tiny()
