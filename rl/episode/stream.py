"""The endless stream of episodes: the tasks in a new seeded order every epoch."""

from collections.abc import Sequence

from rl.episode.records import EpisodeId
from rl.seeding import derived_random


def episode_at(order: int, tasks: Sequence[str], run_seed: int) -> EpisodeId:
    """Return the ``order``-th episode (from 0): every task once an epoch, shuffled by the seed."""
    epoch, place = divmod(order, len(tasks))
    shuffled = list(tasks)
    derived_random(run_seed, "epoch", epoch).shuffle(shuffled)
    return EpisodeId(epoch=epoch, task=shuffled[place], order=order)
