"""A multinomial logistic regression as plain numbers: applied with numpy, stored as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LinearClassifier:
    """Class probabilities from standardised features.

    ``mean`` and ``scale`` (features,) standardise; ``coefficients`` (labels, features) and
    ``intercepts`` (labels,) give the logits.
    """

    labels: tuple[str, ...]
    features: tuple[str, ...]
    mean: Matrix
    scale: Matrix
    coefficients: Matrix
    intercepts: Matrix

    def __post_init__(self) -> None:
        wanted = {
            "mean": (len(self.features),),
            "scale": (len(self.features),),
            "coefficients": (len(self.labels), len(self.features)),
            "intercepts": (len(self.labels),),
        }
        for name, shape in wanted.items():
            if (found := getattr(self, name).shape) != shape:
                raise ValueError(f"{name} has shape {found}, but {shape} is needed")

    def probabilities(self, rows: Matrix) -> Matrix:
        """Return (rows, labels) probabilities for (rows, features) values."""
        logits = (rows - self.mean) / self.scale @ self.coefficients.T + self.intercepts
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares: Matrix = weights / weights.sum(axis=1, keepdims=True)
        return shares

    def as_dict(self, digits: int = 6) -> dict[str, Any]:
        """Return plain lists for JSON, rounded to ``digits`` decimals."""
        return {
            "labels": list(self.labels),
            "features": list(self.features),
            "mean": self.mean.round(digits).tolist(),
            "scale": self.scale.round(digits).tolist(),
            "coefficients": self.coefficients.round(digits).tolist(),
            "intercepts": self.intercepts.round(digits).tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], features: Sequence[str]) -> "LinearClassifier":
        """Read :meth:`as_dict`'s output back.

        Raises:
            ValueError: it was fitted on features other than ``features``.
        """
        if list(data["features"]) != list(features):
            raise ValueError(
                f"the weights were fitted on features {data['features']}, "
                f"but the code computes {list(features)}; fit them again"
            )
        arrays = {
            name: np.array(data[name], np.float64)
            for name in ("mean", "scale", "coefficients", "intercepts")
        }
        return cls(tuple(data["labels"]), tuple(data["features"]), **arrays)
