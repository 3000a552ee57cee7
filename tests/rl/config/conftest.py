from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's root."""
    return Path(__file__).resolve().parents[3]
