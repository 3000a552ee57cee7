"""The staleness gate: which episodes may start, and when a batch may be cut (pure bookkeeping)."""

from collections.abc import Iterable
from dataclasses import dataclass

from rl.episode.records import Episode
from rl.policy.version import AdapterVersion


@dataclass(frozen=True)
class Cut:
    """A batch, with the staleness (learner steps) of each of its episodes."""

    episodes: tuple[Episode, ...]
    staleness: tuple[int, ...]


class EpisodeGate:
    """Accounts for every episode by its order: running, complete, trained or failed.

    Invariants: episodes are admitted in order while accepted + running ≤ (S + version + 1) · B,
    so that none can be more than S steps old when it is trained; each is trained exactly once or
    counted as failed; a failed one returns its slot.
    """

    def __init__(
        self,
        batch_size: int,
        staleness: int,
        trained: Iterable[int] = (),
        failed: Iterable[int] = (),
    ) -> None:
        self._batch_size = batch_size
        self._staleness = staleness
        self.trained = set(trained)
        self.failed = set(failed)
        self._next = 0
        self._again: set[int] = set()
        self._running: dict[int, int] = {}
        self._complete: dict[int, Episode] = {}

    @property
    def running(self) -> int:
        """How many episodes are being played."""
        return len(self._running)

    @property
    def complete(self) -> int:
        """How many finished episodes wait for a batch."""
        return len(self._complete)

    def admit(self, version: int) -> int | None:
        """Return the order of the next episode to start at ``version`` steps, or ``None``."""
        accepted = len(self.trained) + len(self._complete)
        if accepted + len(self._running) >= (self._staleness + version + 1) * self._batch_size:
            return None
        if self._again:
            order = min(self._again)
            self._again.remove(order)
        else:
            while self._next in self.trained or self._next in self.failed:
                self._next += 1
            order = self._next
            self._next += 1
        self._running[order] = version
        return order

    def reissue(self, order: int) -> None:
        """Take back an episode whose actor died, to be admitted again before newer ones."""
        del self._running[order]
        self._again.add(order)

    def deliver(self, episode: Episode) -> bool:
        """Take in a finished episode; return whether it can be trained on (else it is failed)."""
        order = episode.id.order
        del self._running[order]
        if episode.end.is_failure:
            self.failed.add(order)
            return False
        self._complete[order] = episode
        return True

    def ready(self, version: int) -> bool:
        """Return whether a batch can be cut at ``version`` steps.

        Not while an episode is running that would be too old for any later batch: it belongs into
        this one. Otherwise slow dialogues would be thrown away and short ones preferred.
        """
        if len(self._complete) < self._batch_size:
            return False
        oldest = min(self._running.values(), default=version + 1)
        return oldest > version - self._staleness

    def cut(self, version: int, lineage: int) -> tuple[Cut, tuple[Episode, ...]]:
        """Take the oldest batch; also return episodes dropped for age or an abandoned lineage.

        The check here is the guarantee; admission makes it hold without dropping. The dropped
        count as failed. The batch is short when too few episodes are left: ask again later.
        """
        chosen: list[tuple[Episode, int]] = []
        dropped: list[Episode] = []
        for order in sorted(self._complete):
            if len(chosen) == self._batch_size:
                break
            age = staleness_of(self._complete[order], version, lineage)
            if age is None or age > self._staleness:
                dropped.append(self._complete.pop(order))
                self.failed.add(order)
            else:
                chosen.append((self._complete[order], age))
        if len(chosen) < self._batch_size:
            return Cut((), ()), tuple(dropped)
        for episode, _ in chosen:
            del self._complete[episode.id.order]
            self.trained.add(episode.id.order)
        episodes = tuple(episode for episode, _ in chosen)
        return Cut(episodes, tuple(age for _, age in chosen)), tuple(dropped)


def staleness_of(episode: Episode, version: int, lineage: int) -> int | None:
    """Return how many steps old the oldest trained token is; ``None`` for another lineage."""
    versions = [AdapterVersion.parse(name) for name in episode.versions]
    if any(v.lineage != lineage for v in versions):
        return None
    return max((version - v.step for v in versions), default=0)
