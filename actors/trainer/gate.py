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

    Invariants: episodes are admitted in order while accepted + running ≤ (S + version + 1) · B;
    each is trained exactly once or counted as failed; a failed one returns its slot; none is more
    than S steps old when it is trained, and none is thrown away for having taken long.
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
        self._running: set[int] = set()
        self._complete: dict[int, Episode] = {}
        self._started: dict[int, int] = {}  # the version at which each of these two was admitted

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
        self._running.add(order)
        self._started[order] = version
        return order

    def reissue(self, order: int) -> None:
        """Take back an episode whose actor died, to be admitted again before newer ones."""
        self._running.remove(order)
        del self._started[order]
        self._again.add(order)

    def deliver(self, episode: Episode) -> bool:
        """Take in a finished episode; return whether it can be trained on (else it is failed)."""
        order = episode.id.order
        self._running.remove(order)
        if episode.end.is_failure:
            self._fail(order)
            return False
        self._complete[order] = episode
        return True

    def ready(self, version: int) -> bool:
        """Return whether a batch can be cut at ``version`` steps."""
        return bool(self._choose(version))

    def cut(self, version: int, lineage: int) -> tuple[Cut, tuple[Episode, ...]]:
        """Take the oldest batch; also return episodes dropped for age or an abandoned lineage.

        The check here is the guarantee; :meth:`ready` makes it hold without dropping. The dropped
        count as failed. There is no batch when too few episodes are left: ask again later.
        """
        ages: dict[int, int] = {}
        dropped: list[Episode] = []
        for order in sorted(self._complete):
            age = staleness_of(self._complete[order], version, lineage)
            if age is None or age > self._staleness:
                dropped.append(self._complete.pop(order))
                self._fail(order)
            else:
                ages[order] = age
        chosen = self._choose(version)
        episodes = tuple(self._complete.pop(order) for order in chosen)
        for order in chosen:
            del self._started[order]
            self.trained.add(order)
        return Cut(episodes, tuple(ages[order] for order in chosen)), tuple(dropped)

    def _choose(self, version: int) -> list[int]:
        """Return the orders of the batch to cut at ``version``, or none if it has to wait.

        The batch is taken from the complete ones: started longest ago, then lowest order. It
        waits while an episode that is left over, running or not, could become too old for want of
        room in the batches that follow: one started at v must be in the batch of version v + S at
        the latest. Otherwise slow dialogues would be thrown away and short ones preferred.
        """
        oldest_first = sorted(self._complete, key=lambda order: (self._started[order], order))
        chosen, left = oldest_first[: self._batch_size], oldest_first[self._batch_size :]
        if len(chosen) < self._batch_size:
            return []
        starts = sorted(self._started[order] for order in (*left, *self._running))
        for index, start in enumerate(starts):
            earliest = version + 1 + index // self._batch_size
            if earliest > start + self._staleness:
                return []
        return chosen

    def _fail(self, order: int) -> None:
        del self._started[order]
        self.failed.add(order)


def staleness_of(episode: Episode, version: int, lineage: int) -> int | None:
    """Return how many steps old the oldest trained token is; ``None`` for another lineage."""
    versions = [AdapterVersion.parse(name) for name in episode.versions]
    if any(v.lineage != lineage for v in versions):
        return None
    return max((version - v.step for v in versions), default=0)
