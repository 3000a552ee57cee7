"""Episodes in flight: issued to simulators that live, and taken back from one that died."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from rl.episode.records import Episode, EpisodeId


class NoSimulatorError(RuntimeError):
    """Every simulator is dead for good."""


@dataclass(frozen=True)
class Lost:
    """An episode whose simulator died while it was played; it may be played again."""

    id: EpisodeId
    detail: str


@dataclass(frozen=True)
class Broken:
    """An episode that raised in its simulator; playing it again would raise again."""

    id: EpisodeId
    detail: str


class SimulatorPool:
    """Spreads episodes over the simulators that live.

    Invariant: every episode that was started comes back once, as played, lost or broken. A
    simulator that died gets no episode until Ray has started it again.
    """

    def __init__(self, simulators: Sequence[Any]) -> None:
        self._simulators = list(simulators)
        self._alive = set(range(len(self._simulators)))
        self._load: Counter[int] = Counter()
        self._episodes: dict[ray.ObjectRef, tuple[EpisodeId, int]] = {}
        self._restarting: dict[ray.ObjectRef, int] = {}

    @property
    def available(self) -> bool:
        """Whether an episode can be started now."""
        return bool(self._alive)

    @property
    def pending(self) -> list[ray.ObjectRef]:
        """What to wait for: running episodes and simulators that are started again."""
        return [*self._episodes, *self._restarting]

    def start(self, episode: EpisodeId) -> None:
        """Give ``episode`` to the simulator with the least to do."""
        index = min(self._alive, key=lambda i: (self._load[i], i))
        self._load[index] += 1
        call = self._simulators[index].run_episode.remote(episode)
        self._episodes[call] = (episode, index)

    def take(self, call: ray.ObjectRef) -> Episode | Lost | Broken | None:
        """Take in one of :attr:`pending` that is done; ``None`` when it was a restart.

        Raises:
            NoSimulatorError: the last simulator will not come back.
        """
        if call in self._restarting:
            self._take_restart(call)
            return None
        episode, index = self._episodes.pop(call)
        self._load[index] -= 1
        try:
            played: Episode = ray.get(call)
        except RayActorError as error:
            self._rest(index)
            return Lost(episode, str(error))
        except RayTaskError as error:
            return Broken(episode, str(error))
        return played

    def _rest(self, index: int) -> None:
        if index in self._alive:
            self._alive.remove(index)
            # Retried by Ray until the actor is there again or will not be started any more.
            call = self._simulators[index].ready.options(max_task_retries=-1).remote()
            self._restarting[call] = index

    def _take_restart(self, call: ray.ObjectRef) -> None:
        index = self._restarting.pop(call)
        try:
            ray.get(call)
        except (RayActorError, RayTaskError) as error:
            if not self._alive and not self._restarting:
                raise NoSimulatorError(
                    f"no simulator is left; simulator {index} did not come back: {error}"
                ) from error
            return
        self._alive.add(index)
