"""The stream of episodes: every task once an epoch, in an order that the seed decides."""

import random
from itertools import count, islice

from hypothesis import given
from hypothesis import strategies as st

from rl.episode.records import EpisodeId
from rl.episode.stream import episode_at

names = st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=12, unique=True)


@given(names, st.integers(0, 2**40), st.integers(0, 50))
def test_every_epoch_holds_every_task_once(tasks, seed, epoch):
    first = epoch * len(tasks)
    episodes = [episode_at(first + place, tasks, seed) for place in range(len(tasks))]
    assert sorted(episode.task for episode in episodes) == sorted(tasks)
    assert {episode.epoch for episode in episodes} == {epoch}
    assert [episode.order for episode in episodes] == list(range(first, first + len(tasks)))


@given(names, st.integers(0, 2**40), st.lists(st.integers(0, 200), max_size=10))
def test_an_episode_does_not_depend_on_what_was_asked_before(tasks, seed, asked):
    random.seed(seed)  # nor on the global generator
    before = [episode_at(order, tasks, seed) for order in asked]
    random.seed(0)
    assert [episode_at(order, tasks, seed) for order in reversed(asked)] == before[::-1]


def test_the_order_changes_with_the_seed_and_the_epoch():
    tasks = [f"task-{number}" for number in range(20)]

    def order(seed, epoch):
        return [episode_at(epoch * 20 + place, tasks, seed).task for place in range(20)]

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)
    assert order(0, 0) != tasks


def test_no_id_is_given_twice():
    tasks = ["a", "b", "c"]
    seen = [episode_at(order, tasks, 1) for order in islice(count(), 60)]
    assert len({str(episode) for episode in seen}) == 60
    assert seen[7] == EpisodeId(epoch=2, task=seen[7].task, order=7)
