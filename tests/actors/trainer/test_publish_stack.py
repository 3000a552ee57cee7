"""Publishing against workers that serve something else than they were given."""

import pytest
import ray

from actors.trainer.publish import ArrivalError, Publisher
from rl.policy.version import AdapterVersion
from tests.actors.trainer.doubles import BASE, PROBE_IDS, ScriptedLearner, adapter

pytestmark = pytest.mark.stack


def publisher(learner, worker, tolerance=1e-3):
    return Publisher(learner, [worker], PROBE_IDS, tolerance, deadline_s=30.0)


def version(step):
    return AdapterVersion("assistant", 0, step)


def publish_steps(sender, learner, moves):
    published = [sender.publish(version(0))]
    for step, move in enumerate(moves, start=1):
        learner.logprobs = tuple(value + move for value in learner.logprobs)
        published.append(sender.publish(version(step)))
    return published


def test_each_version_is_told_apart_from_the_one_before(worker):
    learner = ScriptedLearner()
    sender = publisher(learner, worker)
    sender.prove(0)
    published = publish_steps(sender, learner, [5e-4, 0.0, 2e-4])
    assert [p.probe_difference for p in published] == [0.0] * 4
    assert published[0].probe_moved is None
    assert [p.probe_moved for p in published[1:]] == pytest.approx([5e-4, 0.0, 2e-4])
    assert [p.probe_conclusive for p in published] == [False, True, False, True]
    assert ray.get(worker.versions.remote()) == ("assistant@0.3",)  # the others are retired


def test_pitfall_01_old_weights_under_a_new_name_are_noticed_within_the_tolerance(worker):
    """The update moves less than the tolerance: agreement alone would not notice."""
    ray.get(worker.reset.remote(None, "stuck"))
    learner = ScriptedLearner()
    sender = publisher(learner, worker)
    with pytest.raises(ArrivalError, match=r"worker 0 still serves an older version .*@0\.1"):
        publish_steps(sender, learner, [5e-4])


def test_pitfall_01_moves_too_small_to_tell_add_up(worker):
    """A noise of 5e-4, found with the canary, hides moves of 8e-4; the third in a row is clear."""
    learner = ScriptedLearner()
    sender = publisher(learner, worker, tolerance=1.0)
    learner.canary = lambda name, seed, ids: (
        adapter(name, [v - 1.0 for v in BASE]),
        tuple(v - 1.0005 for v in BASE),
    )
    sender.prove(0)
    ray.get(worker.reset.remote(None, "stuck"))
    with pytest.raises(ArrivalError, match=r"@0\.3"):
        publish_steps(sender, learner, [8e-4] * 3)


def test_pitfall_01_a_worker_that_ignores_adapters(worker):
    ray.get(worker.reset.remote(None, "deaf"))
    learner_sees_nothing = publisher(ScriptedLearner(canary_moves=0.0), worker)
    with pytest.raises(ArrivalError, match="the canary adapter changes nothing"):
        learner_sees_nothing.prove(0)
    with pytest.raises(ArrivalError, match=r"canary@0\.0 differ from the learner's by 1"):
        publisher(ScriptedLearner(), worker).prove(0)


def test_other_files_than_published(worker):
    ray.get(worker.reset.remote(None, "other files"))
    with pytest.raises(ArrivalError, match=r"worker 0: adapter assistant@0\.0 arrived with digest"):
        publisher(ScriptedLearner(), worker).publish(version(0))


def test_other_logprobs_than_the_learner(worker):
    learner = ScriptedLearner()
    learner.export = lambda name, ids: (adapter(name, BASE), (-1.0, -2.0, -3.01))
    with pytest.raises(ArrivalError, match=r"differ from the learner's by 0\.01, more than"):
        publisher(learner, worker).publish(version(0))


def test_a_frozen_adapter_stays_while_others_go(worker):
    learner = ScriptedLearner()
    sender = publisher(learner, worker)
    sender.load_frozen(adapter("user@0.0", [-1.5, -2.0, -3.0]))
    publish_steps(sender, learner, [0.01, 0.01])
    assert set(ray.get(worker.versions.remote())) == {"user@0.0", "assistant@0.2"}


def test_a_frozen_adapter_that_changes_nothing(worker):
    with pytest.raises(ArrivalError, match=r"the frozen adapter user@0\.0 changes nothing"):
        publisher(ScriptedLearner(), worker).load_frozen(adapter("user@0.0", BASE))
