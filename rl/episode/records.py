"""Frozen records of a finished episode: they cross actor borders and fill ``episodes.jsonl``."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rl.discovery.tree import TreeState
from rl.episode.outcome import EpisodeEnd, FinishReason
from rl.episode.tokens import TokenTree
from rl.judging.interface import Abstention, Judgement


@dataclass(frozen=True)
class Candidate:
    """One of the K turns sampled from one state.

    ``reward`` is ``None`` when the candidate could not be scored: missing is not zero.
    """

    span: int
    text: str
    tokens: int
    finish: FinishReason
    version: str
    reward: float | None = None
    reward_parts: Mapping[str, float] = field(default_factory=dict)
    compliant: bool | None = None
    verdict: Judgement | Abstention | None = None

    @property
    def usable(self) -> bool:
        """Whether the candidate may enter its group's statistics."""
        return self.reward is not None and self.tokens > 0


@dataclass(frozen=True)
class Group:
    """K candidates of one state, and the index of the one that the dialogue went on with.

    ``committed`` is ``None`` when no candidate could be scored, or none was before the dialogue was
    stopped; either way it ended here.
    """

    id: str
    turn: int
    candidates: tuple[Candidate, ...]
    committed: int | None


@dataclass(frozen=True)
class Turn:
    """One turn as a reader sees it; ``state`` is the intent tree's state after the turn.

    ``finish`` is ``None`` for a turn that no model wrote, ``version`` also for one that the base
    model wrote.
    """

    index: int
    role: str
    text: str
    state: TreeState | None = None
    version: str | None = None
    finish: FinishReason | None = None
    directive: str | None = None


@dataclass(frozen=True)
class EpisodeId:
    """Which pass over the tasks, which task, and its place ``order`` in the stream of episodes."""

    epoch: int
    task: str
    order: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.task}"


@dataclass(frozen=True)
class Episode:
    """One finished dialogue with its groups: delivered whole or as a failure (``end`` says so).

    A failed one holds what was played of it, for the record; nothing of it is trained.
    """

    id: EpisodeId
    seat: str
    domain: str
    end: EpisodeEnd
    tokens: TokenTree
    groups: tuple[Group, ...] = ()
    turns: tuple[Turn, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    detail: str = ""

    @property
    def versions(self) -> tuple[str, ...]:
        """The adapter versions that wrote trained tokens, in order of first use."""
        return tuple(dict.fromkeys(s.version for s in self.tokens.sampled() if s.version))


def as_failed(episode: Episode, end: EpisodeEnd, detail: str) -> Episode:
    """Return ``episode`` as a failure: all that was played stays, and none of it is trained.

    Raises ``ValueError`` when ``end`` is no failure.
    """
    if not end.is_failure:
        raise ValueError(f"{end} is no failure")
    return replace(episode, end=end, detail=detail)
