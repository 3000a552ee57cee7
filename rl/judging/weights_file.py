"""The fitted weights of the embedded judge: a JSON file with what it was fitted on and how."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from rl.judging.features import NODE_FEATURES
from rl.judging.interface import Engagement, ReplyKind
from rl.judging.kind_features import KIND_FEATURES
from rl.judging.linear import LinearClassifier

VERSION = 1
DEFAULT_WEIGHTS = Path(str(files("rl.judging"))) / "weights" / "embedded.json"


class WeightsError(ValueError):
    """A weights file that cannot be used; the message names the file and what is wrong."""


@dataclass(frozen=True)
class JudgeWeights:
    """Both classifiers of the embedded judge, and the least probability at which a hit is direct.

    ``fitted`` says how and on which tasks they were fitted, and which tasks were held out.
    """

    node: LinearClassifier
    kind: LinearClassifier
    direct_threshold: float
    fitted: Mapping[str, Any]


def load_weights(path: Path = DEFAULT_WEIGHTS) -> JudgeWeights:
    """Read a weights file.

    Raises:
        WeightsError: it is missing, not JSON, of another version, or made for other features.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']!r}, but {VERSION} is needed")
        weights = JudgeWeights(
            node=LinearClassifier.from_dict(data["node"], list(NODE_FEATURES)),
            kind=LinearClassifier.from_dict(data["kind"], list(KIND_FEATURES)),
            direct_threshold=float(data["direct_threshold"]),
            fitted=data["fitted"],
        )
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror}") from None
    except KeyError as error:
        raise WeightsError(f"{path}: key {error} is missing") from None
    except (TypeError, ValueError) as error:
        raise WeightsError(f"{path}: {error}") from None
    _check_labels(path, weights)
    return weights


def save_weights(weights: JudgeWeights, path: Path) -> None:
    """Write a weights file, one key a line, so that differences read well."""
    data = {
        "version": VERSION,
        "fitted": dict(weights.fitted),
        "direct_threshold": weights.direct_threshold,
        "node": weights.node.as_dict(),
        "kind": weights.kind.as_dict(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _check_labels(path: Path, weights: JudgeWeights) -> None:
    """Refuse classifiers that do not speak of our labels."""
    for name, classifier, allowed in (
        ("node", weights.node, Engagement),
        ("kind", weights.kind, ReplyKind),
    ):
        if sorted(classifier.labels) != sorted(label.value for label in allowed):
            raise WeightsError(
                f"{path}: {name}.labels are {list(classifier.labels)}, "
                f"but {[label.value for label in allowed]} are needed"
            )
