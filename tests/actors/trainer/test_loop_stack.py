"""The training loop with scripted actors: what it does when they fail, hang, die or disagree."""

import json
import time
from types import SimpleNamespace

import pytest
import ray

import actors.trainer.loop as loop_module
from actors.trainer.checkpoint import Progress, list_checkpoints, load_checkpoint
from actors.trainer.loop import TrainingError, TrainingLoop
from actors.trainer.publish import Publisher
from actors.trainer.run_folder import RunFolder
from actors.trainer.simulators import NoSimulatorError
from rl.episode.jsonl import read_episodes, read_rows
from tests.actors.trainer.doubles import PROBE_IDS, MortalSimulator, ScriptedLearner
from tests.stack_fixtures import tiny_config

pytestmark = pytest.mark.stack

DOMAINS = {"a": "svg", "b": "svg", "c": "svg"}


class Played:
    """A loop that ran in ``folder``, with what it left there."""

    def __init__(self, folder, worker, simulators, learner, arguments=(), progress=None):
        self.config = tiny_config(f"run.dir={folder / 'run'}", *arguments)
        self.folder = RunFolder.create(self.config)
        self.learner = learner
        if not learner.ranks:
            learner.ranks = [worker] * len(learner.actions)
        crew = SimpleNamespace(rollouts=(worker,), simulators=simulators, learner=learner)
        publisher = Publisher(learner, [worker], PROBE_IDS, 1e-3, 30.0)
        start = progress or Progress(0, 0, 0, 0, 1, (), ())
        self.loop = TrainingLoop(
            self.config, crew, publisher, self.folder, DOMAINS, start, lambda row: None
        )

    @property
    def rows(self):
        return list(read_rows(self.folder.metrics)) if self.folder.metrics.exists() else []

    @property
    def ends(self):
        return {e.id.order: str(e.end) for e in read_episodes(self.folder.episodes)}

    @property
    def progress(self):
        return load_checkpoint(self.folder.checkpoints).progress


@pytest.fixture
def play(tmp_path, worker, simulator, monkeypatch):
    monkeypatch.setattr(loop_module, "_POLL_S", 0.2)

    def start(script=None, *arguments, learner=None, simulators=None, progress=None):
        actors = simulators or (simulator(script),)
        return Played(tmp_path, worker, actors, learner or ScriptedLearner(), arguments, progress)

    return start


def test_every_episode_is_trained_once_and_recorded(play):
    run = play()
    run.loop.run()
    assert [row["step"] for row in run.rows] == [1, 2]
    assert run.ends == dict.fromkeys(range(4), "turn_limit")
    assert run.progress == Progress(2, 2, 0, 0, 1, (0, 1, 2, 3), (), {})
    assert run.learner.trained == [(0, "assistant@0.0"), (1, "assistant@0.1")]
    assert run.rows[1]["policy_version"] == "assistant@0.2"
    assert run.rows[1]["kv_age"] == 0
    assert run.rows[1]["probe_moved"] == pytest.approx(0.1)
    assert set(run.rows[1]["seconds"]) == {"wait", "train", "publish", "checkpoint"}


def test_an_episode_that_raises_or_fails_is_counted_and_replaced(play):
    run = play({0: "raise", 2: "fail"})
    run.loop.run()
    assert run.ends == {
        0: "internal_error",
        1: "turn_limit",
        2: "deadline",
        3: "turn_limit",
        4: "turn_limit",
        5: "turn_limit",
    }
    assert run.progress.trained == (1, 3, 4, 5)
    assert run.progress.failed == (0, 2)
    assert run.progress.failures == {"internal_error": 1, "deadline": 1}
    assert sum(row["episodes_failed"] for row in run.rows) == 2
    detail = next(e.detail for e in read_episodes(run.folder.episodes) if e.id.order == 0)
    assert "nothing can be done with 0" in detail


def test_a_continued_run_counts_on(play):
    before = Progress(1, 1, 3, 0, 1, (0, 1), (2,), {"deadline": 1})
    run = play({3: "fail"}, progress=before)
    run.loop.run()
    assert run.progress == Progress(2, 2, 3, 0, 1, (0, 1, 4, 5), (2, 3), {"deadline": 2})


def test_pitfall_19_failures_in_a_row_end_the_run(play):
    run = play(dict.fromkeys(range(9), "fail"), "train.max_failed_episodes=3")
    with pytest.raises(TrainingError, match=r"3 episodes failed in a row .*the last: deadline"):
        run.loop.run()
    assert len(run.ends) == 3


def test_an_episode_of_another_lineage_is_recorded_whole_and_not_trained(play):
    run = play({1: "elsewhere"})
    run.loop.run()
    assert run.ends[1] == "stale"
    dropped = next(e for e in read_episodes(run.folder.episodes) if e.id.order == 1)
    assert len(dropped.groups) == 1
    assert "assistant@9.0" in dropped.detail
    assert run.progress.failures == {"stale": 1}


def test_pitfall_18_a_standstill_ends_the_run(play):
    deadlines = ("simulator.episode_deadline_s=0.5", "judge.deadline_s=0.5")
    run = play({0: "hang"}, *deadlines, "learner.step_deadline_s=0.5")
    with pytest.raises(
        TrainingError, match=r"nothing happened for 1 s .*1 episodes running, 1 com"
    ):
        run.loop.run()


def test_a_failed_rank_is_named_at_once_though_the_others_hang(play):
    run = play(learner=ScriptedLearner(actions=("hang", "raise")))
    start = time.monotonic()
    with pytest.raises(TrainingError, match=r"step 1: learner rank 1 failed: .*not finite"):
        run.loop.run()
    assert time.monotonic() - start < 60  # the deadline is 1800 s


def test_a_rank_that_hangs_meets_its_deadline(play):
    run = play(None, "learner.step_deadline_s=1", learner=ScriptedLearner(actions=("", "hang")))
    with pytest.raises(TrainingError, match="1 of 2 learner ranks did not finish within"):
        run.loop.run()


@pytest.mark.parametrize("staleness", [0, 1])
def test_pitfall_08_disagreement_with_the_sampler_ends_the_run(play, staleness):
    run = play(None, f"train.staleness={staleness}", learner=ScriptedLearner(mismatch=0.06))
    with pytest.raises(TrainingError, match=r"mismatch KL 0\.06 is above .*max_mismatch_kl=0\.05"):
        run.loop.run()
    assert [row["mismatch_kl_current"] for row in run.rows] == [0.06]  # recorded
    newest = list_checkpoints(run.folder.checkpoints)[-1]
    assert newest.name == "step-000000"  # and not continued from


def test_pitfall_08_stale_tokens_alone_prove_no_disagreement(play):
    """Their mismatch (0.9 in the double) is what the policy has learnt since."""
    run = play(None, "train.staleness=1", learner=ScriptedLearner(mismatch=None))
    run.loop.run()
    assert [row["mismatch_kl_current"] for row in run.rows] == [None, None]
    assert run.rows[0]["mismatch_kl"] == 0.9


def mortal(worker, folder, lives, restarts):
    folder.mkdir()
    kind = ray.remote(MortalSimulator)
    options = kind.options(num_cpus=0, max_concurrency=100, max_restarts=restarts)
    return options.remote(worker, str(folder), 0, lives)


def test_the_only_simulator_dies_and_comes_back(play, worker, tmp_path):
    simulator = mortal(worker, tmp_path / "deaths", lives=1, restarts=1)
    run = play(simulators=(simulator,))
    run.loop.run()
    assert run.ends == dict.fromkeys(range(4), "turn_limit")
    assert run.progress.failed == ()
    assert 1 <= run.progress.failures["simulator_died"] <= 2  # both episodes may have been there
    ray.kill(simulator)


def test_an_episode_that_kills_its_simulator_is_given_up(play, worker, tmp_path):
    simulator = mortal(worker, tmp_path / "deaths", lives=9, restarts=3)
    run = play(None, "train.steps=1", "train.episodes_per_step=1", simulators=(simulator,))
    run.loop.run()
    assert run.ends == {0: "actor_died", 1: "turn_limit"}
    assert run.progress.failures == {"simulator_died": 2, "actor_died": 1}
    ray.kill(simulator)


def test_without_any_simulator_the_run_ends(play, worker, tmp_path):
    simulator = mortal(worker, tmp_path / "deaths", lives=9, restarts=0)
    run = play(simulators=(simulator,))
    with pytest.raises(NoSimulatorError, match="no simulator is left; simulator 0"):
        run.loop.run()


def test_status_says_what_the_run_is_doing(play):
    run = play()
    run.loop.run()
    status = json.loads((run.folder.folder / "status.json").read_text())
    assert (status["phase"], status["step"], status["steps"]) == ("rollout", 2, 2)
