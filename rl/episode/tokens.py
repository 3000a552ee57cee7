"""A dialogue as a tree of token spans: a trunk, and K candidates hanging off each trained turn."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Span:
    """A run of tokens that stands or falls together.

    ``sampled`` spans were sampled by the trained seat: every token of theirs has mask 1, a
    behaviour log-prob (natural log, of the processed distribution at the sampler's temperature)
    and the ``version`` of the adapter that wrote it. Every other token has mask 0.
    """

    id: int
    parent: int | None
    ids: tuple[int, ...]
    sampled: bool = False
    logprobs: tuple[float, ...] = ()
    version: str | None = None
    reward: float | None = None

    def __post_init__(self) -> None:
        if self.sampled and len(self.logprobs) != len(self.ids):
            raise ValueError(
                f"span {self.id}: {len(self.ids)} sampled ids but {len(self.logprobs)} log-probs"
            )
        if self.sampled and self.version is None:
            raise ValueError(f"span {self.id}: a sampled span needs the version that wrote it")
        if not self.sampled and self.logprobs:
            raise ValueError(f"span {self.id}: log-probs on a span that was not sampled")
        if self.parent is not None and not 0 <= self.parent < self.id:
            raise ValueError(f"span {self.id}: parent {self.parent} must come before it")

    @property
    def mask(self) -> tuple[int, ...]:
        """1 for each token sampled by the trained seat, else 0."""
        return (int(self.sampled),) * len(self.ids)


@dataclass(frozen=True)
class TokenTree:
    """Spans of one seat's view of one dialogue; a span's id is its index, parents come first."""

    spans: tuple[Span, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        for index, span in enumerate(self.spans):
            if span.id != index:
                raise ValueError(f"span {span.id} stands at index {index}")

    def path(self, span: int) -> tuple[Span, ...]:
        """Return the spans from the root down to ``span``, itself included."""
        path: list[Span] = []
        at: int | None = span
        while at is not None:
            path.append(self.spans[at])
            at = self.spans[at].parent
        return tuple(reversed(path))

    def prefix_ids(self, span: int | None) -> tuple[int, ...]:
        """Return all token ids from the root to the end of ``span`` (none for ``None``)."""
        if span is None:
            return ()
        return tuple(token for part in self.path(span) for token in part.ids)

    def sampled(self) -> Iterator[Span]:
        """Yield the spans that the trained seat sampled, oldest first."""
        return (span for span in self.spans if span.sampled)


class TokenTreeBuilder:
    """Grows a :class:`TokenTree` span by span while a dialogue runs."""

    def __init__(self) -> None:
        self._spans: list[Span] = []

    def add(self, parent: int | None, ids: tuple[int, ...]) -> int:
        """Append a span that the trained seat did not sample and return its id."""
        return self._append(Span(id=len(self._spans), parent=parent, ids=ids))

    def add_sampled(
        self, parent: int | None, ids: tuple[int, ...], logprobs: tuple[float, ...], version: str
    ) -> int:
        """Append a candidate that the trained seat sampled and return its id."""
        return self._append(
            Span(len(self._spans), parent, ids, sampled=True, logprobs=logprobs, version=version)
        )

    def prefix_ids(self, span: int | None) -> tuple[int, ...]:
        """Return all token ids from the root to the end of ``span``."""
        return TokenTree(tuple(self._spans)).prefix_ids(span)

    def build(self, rewards: dict[int, float] | None = None) -> TokenTree:
        """Return the tree, with the reward of each span in ``rewards``."""
        rewards = rewards or {}
        return TokenTree(
            tuple(
                Span(s.id, s.parent, s.ids, s.sampled, s.logprobs, s.version, rewards.get(s.id))
                for s in self._spans
            )
        )

    def _append(self, span: Span) -> int:
        self._spans.append(span)
        return span.id
