"""Names of adapter versions: ``seat@lineage.step``, immutable and never reused."""

import re
from dataclasses import dataclass

_PATTERN = re.compile(r"(?P<seat>[a-z_]+)@(?P<lineage>\d+)\.(?P<step>\d+)")


@dataclass(frozen=True, order=True)
class AdapterVersion:
    """One immutable version of a seat's adapter.

    ``lineage`` counts the starts of the learner: every restart opens a new one, so that a
    replayed step never reuses a name. ``step`` counts optimiser batches within the run.
    """

    seat: str
    lineage: int
    step: int

    def __str__(self) -> str:
        return f"{self.seat}@{self.lineage}.{self.step}"

    @classmethod
    def parse(cls, name: str) -> "AdapterVersion":
        """Read ``seat@lineage.step``; raise :class:`ValueError` on anything else."""
        match = _PATTERN.fullmatch(name)
        if match is None:
            raise ValueError(f"adapter version {name!r}: expected seat@lineage.step")
        return cls(match["seat"], int(match["lineage"]), int(match["step"]))
