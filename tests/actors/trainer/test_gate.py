"""The staleness gate: every episode accounted for, in order, none too old, no standstill."""

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from actors.trainer.gate import Cut, EpisodeGate, staleness_of
from rl.episode.outcome import EpisodeEnd
from rl.episode.records import Episode, EpisodeId
from rl.episode.tokens import Span, TokenTree


def finished(order, *steps, end=EpisodeEnd.TURN_LIMIT, lineage=0):
    """An episode whose trained tokens were written at ``steps`` (none: no trained token)."""
    spans = [Span(0, None, (1,))]
    for step in steps:
        version = f"assistant@{lineage}.{step}"
        spans.append(Span(len(spans), 0, (2,), True, (-0.5,), version))
    return Episode(
        EpisodeId(0, f"task-{order}", order), "assistant", "svg", end, TokenTree(tuple(spans))
    )


def orders(cut):
    return [episode.id.order for episode in cut.episodes]


def admit_all(gate, version):
    admitted = []
    while (order := gate.admit(version)) is not None:
        admitted.append(order)
    return admitted


# --- hand-worked ------------------------------------------------------------------------------


def test_synchronous_batches_are_exactly_the_next_ids():
    gate = EpisodeGate(batch_size=2, staleness=0)
    assert admit_all(gate, 0) == [0, 1]
    gate.deliver(finished(1, 0))
    assert not gate.ready(0)
    gate.deliver(finished(0, 0))
    assert gate.ready(0)
    assert gate.cut(0, 0) == (Cut((finished(0, 0), finished(1, 0)), (0, 0)), ())
    assert admit_all(gate, 0) == []  # nothing starts while the learner works
    assert admit_all(gate, 1) == [2, 3]
    assert gate.trained == {0, 1}


def test_pitfall_18_a_failed_episode_returns_its_slot():
    gate = EpisodeGate(batch_size=2, staleness=0)
    assert admit_all(gate, 0) == [0, 1]
    assert not gate.deliver(finished(0, end=EpisodeEnd.DEADLINE))
    assert gate.deliver(finished(1, 0))
    assert not gate.ready(0)
    assert admit_all(gate, 0) == [2]  # in the place of 0
    gate.deliver(finished(2, 0))
    assert orders(gate.cut(0, 0)[0]) == [1, 2]
    assert gate.failed == {0}
    assert gate.trained == {1, 2}


def test_admission_is_bounded_by_staleness():
    gate = EpisodeGate(batch_size=2, staleness=1)
    assert admit_all(gate, 0) == [0, 1, 2, 3]  # (1 + 0 + 1) · 2
    for order in (0, 1):
        gate.deliver(finished(order, 0))
    assert admit_all(gate, 0) == []
    gate.cut(0, 0)
    assert admit_all(gate, 0) == []  # trained ones still count: the learner is one step behind
    assert admit_all(gate, 1) == [4, 5]


def test_pitfall_22_a_slow_old_episode_is_waited_for():
    gate = EpisodeGate(batch_size=1, staleness=1)
    assert admit_all(gate, 0) == [0, 1]
    gate.deliver(finished(1, 0))
    assert gate.ready(0)  # 0 can still be trained at the next step
    assert orders(gate.cut(0, 0)[0]) == [1]
    assert admit_all(gate, 1) == [2]
    gate.deliver(finished(2, 1))
    assert not gate.ready(1)  # 0 began at version 0 and would be two steps old at the next step
    gate.deliver(finished(0, 0))
    assert gate.ready(1)
    assert gate.cut(1, 0) == (Cut((finished(0, 0),), (1,)), ())


def test_pitfall_22_two_slow_episodes_are_not_left_for_the_same_last_step():
    """With B = 1 and S = 2, two episodes of version 0 need steps 1 and 2: both cannot wait."""
    gate = EpisodeGate(batch_size=1, staleness=2)
    assert admit_all(gate, 0) == [0, 1, 2]
    gate.deliver(finished(2, 0))
    assert orders(gate.cut(0, 0)[0]) == [2]
    assert admit_all(gate, 1) == [3]
    gate.deliver(finished(3, 1))
    assert not gate.ready(1)
    gate.deliver(finished(1, 0))
    assert orders(gate.cut(1, 0)[0]) == [1]
    gate.deliver(finished(0, 0))
    assert gate.cut(2, 0) == (Cut((finished(0, 0),), (2,)), ())


def test_fast_episodes_are_not_held_up_without_need():
    gate = EpisodeGate(batch_size=2, staleness=1)
    assert admit_all(gate, 0) == [0, 1, 2, 3]
    gate.deliver(finished(2, 0))
    gate.deliver(finished(3, 0))
    assert gate.ready(0)  # 0 and 1 fill the next batch
    assert orders(gate.cut(0, 0)[0]) == [2, 3]


def test_a_reissued_episode_does_not_push_out_older_ones():
    gate = EpisodeGate(batch_size=1, staleness=1)
    assert admit_all(gate, 0) == [0, 1]
    gate.deliver(finished(1, 0))
    gate.cut(0, 0)
    assert admit_all(gate, 1) == [2]
    gate.deliver(finished(2, 1))
    gate.reissue(0)
    assert admit_all(gate, 1) == [0]
    gate.deliver(finished(0, 1))
    assert orders(gate.cut(1, 0)[0]) == [0]  # both began at version 1: the lower id first


def test_a_reissued_episode_does_not_take_the_last_place_of_an_older_one():
    """Its id is lower, but it began later: at version 2 only the other one is due."""
    gate = EpisodeGate(batch_size=1, staleness=2)
    assert admit_all(gate, 0) == [0, 1, 2]
    gate.reissue(0)
    gate.deliver(finished(1, 0))
    assert orders(gate.cut(0, 0)[0]) == [1]
    assert admit_all(gate, 1) == [0, 3]
    gate.deliver(finished(3, 1))
    assert orders(gate.cut(1, 0)[0]) == [3]
    assert admit_all(gate, 2) == [4]
    for order, step in ((0, 1), (2, 0), (4, 2)):
        gate.deliver(finished(order, step))
    assert [orders(gate.cut(version, 0)[0]) for version in (2, 3, 4)] == [[2], [0], [4]]


def test_an_episode_whose_actor_died_starts_again_before_newer_ones():
    gate = EpisodeGate(batch_size=2, staleness=0)
    assert admit_all(gate, 0) == [0, 1]
    gate.reissue(0)
    assert gate.running == 1
    assert admit_all(gate, 0) == [0]
    assert gate.running == 2


def test_pitfall_21_what_was_in_flight_is_played_again_after_a_resume():
    gate = EpisodeGate(batch_size=2, staleness=1)
    assert admit_all(gate, 0) == [0, 1, 2, 3]
    gate.deliver(finished(0, end=EpisodeEnd.JUDGE_FAILED))
    gate.deliver(finished(2, 0))
    gate.deliver(finished(3, 0))
    gate.cut(0, 0)
    assert admit_all(gate, 1) == [4, 5, 6]
    gate.deliver(finished(5, 1))  # complete, in no batch yet: lost with the process
    resumed = EpisodeGate(2, 1, gate.trained, gate.failed)
    assert admit_all(resumed, 1) == [1, 4, 5, 6]


def test_an_episode_that_is_not_running_cannot_be_delivered_or_taken_back():
    gate = EpisodeGate(batch_size=1, staleness=0)
    with pytest.raises(KeyError):
        gate.deliver(finished(0, 0))
    admit_all(gate, 0)
    gate.deliver(finished(0, 0))
    with pytest.raises(KeyError):
        gate.deliver(finished(0, 0))
    with pytest.raises(KeyError):
        gate.reissue(0)


def test_the_cut_drops_what_is_too_old_or_of_another_lineage():
    """Admission makes it unnecessary; the guard stands for what admission does not know."""
    gate = EpisodeGate(batch_size=1, staleness=0)
    admit_all(gate, 3)
    old, foreign = finished(0, 2, 3), finished(1, 3, lineage=1)
    gate.deliver(old)
    gate.deliver(foreign)
    assert gate.cut(3, 0) == (Cut((), ()), (old, foreign))
    assert gate.failed == {0, 1}
    assert (gate.complete, gate.running) == (0, 2)


def test_staleness_is_that_of_the_oldest_trained_token():
    assert staleness_of(finished(0, 3, 5), version=6, lineage=0) == 3
    assert staleness_of(finished(0, 6), version=6, lineage=0) == 0
    assert staleness_of(finished(0), version=6, lineage=0) == 0  # nothing trained on
    assert staleness_of(finished(0, 5, lineage=1), version=6, lineage=2) is None


# --- any interleaving -------------------------------------------------------------------------


class GateMachine(RuleBasedStateMachine):
    """Admissions, ends, deaths, batches and resumes in any order, beside a plain model of them."""

    @initialize(batch_size=st.integers(1, 3), staleness=st.integers(0, 3))
    def start(self, batch_size, staleness):
        self.batch_size, self.staleness = batch_size, staleness
        self.version, self.lineage, self.training = 0, 0, False
        self.running, self.complete = {}, {}  # order → version at the start
        self.trained, self.failed = set(), set()
        self.gate = EpisodeGate(batch_size, staleness)

    def room(self):
        used = len(self.trained) + len(self.complete) + len(self.running)
        return used < (self.staleness + self.version + 1) * self.batch_size

    @rule()
    def admit(self):
        order = self.gate.admit(self.version)
        if not self.room():
            assert order is None
            return
        accounted = {*self.trained, *self.failed, *self.running, *self.complete}
        assert order == next(n for n in range(len(accounted) + 1) if n not in accounted)
        self.running[order] = self.version

    @rule(pick=st.randoms(use_true_random=False), later=st.integers(0, 3))
    @precondition(lambda self: self.running)
    def finish(self, pick, later):
        order = pick.choice(sorted(self.running))
        started = self.running.pop(order)
        steps = range(started, min(self.version, started + later) + 1)
        assert self.gate.deliver(finished(order, *steps, lineage=self.lineage))
        self.complete[order] = started

    @rule(pick=st.randoms(use_true_random=False), end=st.sampled_from(EpisodeEnd))
    @precondition(lambda self: self.running)
    def fail(self, pick, end):
        if not end.is_failure:
            return
        order = pick.choice(sorted(self.running))
        del self.running[order]
        assert not self.gate.deliver(finished(order, end=end))
        self.failed.add(order)

    @rule(pick=st.randoms(use_true_random=False))
    @precondition(lambda self: self.running)
    def die(self, pick):
        order = pick.choice(sorted(self.running))
        del self.running[order]
        self.gate.reissue(order)

    @rule()
    @precondition(lambda self: not self.training)
    def cut(self):
        if not self.gate.ready(self.version):
            return
        cut, dropped = self.gate.cut(self.version, self.lineage)
        assert dropped == ()
        assert len(cut.episodes) == self.batch_size
        for order, age in zip(orders(cut), cut.staleness, strict=True):
            assert order not in self.trained
            assert age == self.version - self.complete.pop(order)
            assert age <= self.staleness
            self.trained.add(order)
        self.training = True

    @rule()
    @precondition(lambda self: self.training)
    def publish(self):
        self.version += 1
        self.training = False

    @rule()
    @precondition(lambda self: not self.training)
    def resume(self):
        self.gate = EpisodeGate(self.batch_size, self.staleness, self.trained, self.failed)
        self.running, self.complete = {}, {}
        self.lineage += 1

    @invariant()
    def accounts_agree(self):
        assert self.gate.running == len(self.running)
        assert self.gate.complete == len(self.complete)
        assert self.gate.trained == self.trained
        assert self.gate.failed == self.failed
        assert not self.trained & self.failed

    @invariant()
    def nothing_stands_still(self):
        if not self.training and not self.running and not self.room():
            assert self.gate.ready(self.version)

    def teardown(self):
        """Whatever happened: finish what runs, and the run goes on to its next versions."""
        if not hasattr(self, "gate"):
            return
        target = self.version + 3
        for _ in range(1000):
            if self.version >= target:
                return
            if self.training:
                self.publish()
            while self.room():
                self.admit()
            self.cut()
            if not self.training and self.running:
                self.finish(random.Random(0), 0)
            self.accounts_agree()
        raise AssertionError(f"no progress beyond version {self.version}")


TestAnyInterleaving = GateMachine.TestCase
TestAnyInterleaving.settings = settings(
    max_examples=250,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@pytest.mark.parametrize("staleness", [0, 1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_pitfall_22_durations_do_not_decide_what_is_trained(staleness, seed):
    """A long run with heavy-tailed durations: every episode is trained, none is dropped for age."""
    chance = random.Random(seed)
    batch_size, steps = 3, 150
    gate = EpisodeGate(batch_size, staleness)
    clock, version, busy_until = 0.0, 0, None
    ends, started, trained = {}, {}, []
    while version < steps:
        while (order := gate.admit(version)) is not None:
            ends[order] = clock + chance.paretovariate(1.1)
            started[order] = version
        if busy_until is None and gate.ready(version):
            cut, dropped = gate.cut(version, 0)
            assert not dropped
            assert max(cut.staleness) <= staleness
            trained += orders(cut)
            busy_until = clock + chance.random()
        events = [*ends.values(), *([busy_until] if busy_until else [])]
        assert events, "standstill"
        clock = min(events)
        if clock == busy_until:
            version, busy_until = version + 1, None
        else:
            order = min(ends, key=ends.get)
            del ends[order]
            gate.deliver(finished(order, started[order]))
    assert len(trained) == len(set(trained)) == batch_size * steps
    # Each id of all but the last S + 1 batches was trained: slow ones were not left out.
    assert set(range(batch_size * (steps - staleness - 1))) <= set(trained)
