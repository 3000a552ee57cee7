"""wandb gets each step's numbers from one process, into the run's folder, or nothing at all."""

import sys
from types import SimpleNamespace

import pytest

from actors.trainer.tracker import Tracker, check_tracker
from rl.config.errors import ConfigError
from rl.config.schema import RunConfig

ROW = {
    "step": 2,
    "loss": None,
    "reward_mean": 0.5,
    "batch_skipped": False,
    "policy_version": "assistant@0.2",
    "seconds": {"wait": 1.5, "deep": {"er": 2}},
    "staleness": {},
}


class FakeError(Exception):
    """Stands for wandb.Error."""


@pytest.fixture
def wandb_double(monkeypatch):
    """Stands for wandb: keeps what it is given."""
    seen = SimpleNamespace(init=None, logged=[], finished=0, gone=False)

    class Run:
        def log(self, numbers, step):
            seen.logged.append((step, numbers))

        def finish(self):
            seen.finished += 1
            if seen.gone:
                raise ConnectionResetError("Connection lost")

    def init(**arguments):
        seen.init = arguments
        return Run()

    double = SimpleNamespace(init=init, Settings=lambda **given: given, Error=FakeError)
    monkeypatch.setitem(sys.modules, "wandb", double)
    return seen


def test_numbers_only_under_flat_names(tmp_path, wandb_double):
    tracker = Tracker(RunConfig(), tmp_path / "run-1", {"config": "seed: 0"})
    tracker.log(2, ROW)
    tracker.finish()
    assert wandb_double.logged == [
        (
            2,
            {
                "step": 2.0,
                "reward_mean": 0.5,
                "batch_skipped": 0.0,
                "seconds/wait": 1.5,
                "seconds/deep/er": 2.0,
            },
        )
    ]
    assert wandb_double.finished == 1


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_pitfall_27_one_fixed_folder(tmp_path, wandb_double, mode):
    Tracker(RunConfig(wandb_mode=mode, wandb_project="p"), tmp_path / "run-1", {"a": 1})
    assert wandb_double.init["dir"] == str(tmp_path / "run-1")
    assert (wandb_double.init["mode"], wandb_double.init["project"]) == (mode, "p")
    assert (wandb_double.init["name"], wandb_double.init["config"]) == ("run-1", {"a": 1})


def test_disabled_does_not_even_import_wandb(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # importing it now fails
    tracker = Tracker(RunConfig(wandb_mode="disabled"), tmp_path, {})
    tracker.log(1, ROW)
    tracker.finish()
    with pytest.raises(ImportError):
        Tracker(RunConfig(), tmp_path, {})


def test_offline_writes_into_the_folder_and_nowhere_else(tmp_path, monkeypatch):
    """The real wandb."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    tracker = Tracker(RunConfig(), folder, {"config": "seed: 0"})
    tracker.log(1, ROW)
    tracker.finish()
    assert list((folder / "wandb").glob("offline-run-*/*.wandb"))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_wandb_that_does_not_start_is_one_clear_line(tmp_path, wandb_double, monkeypatch):
    def fail(**arguments):
        raise FakeError("no answer\nadvice")

    monkeypatch.setattr(sys.modules["wandb"], "init", fail)
    with pytest.raises(ConfigError) as caught:
        Tracker(RunConfig(wandb_mode="online"), tmp_path, {})
    assert str(caught.value) == "run.wandb_mode=online: wandb does not start: no answer"


def refused(config):
    with pytest.raises(ConfigError) as caught:
        check_tracker(config)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_wandb_that_a_signal_ended_first_does_not_hide_why_the_run_stopped(
    tmp_path, wandb_double, capsys
):
    tracker = Tracker(RunConfig(), tmp_path / "run-1", {})
    wandb_double.gone = True
    tracker.finish()
    assert capsys.readouterr().out == "wandb did not close its log: Connection lost\n"


@pytest.fixture
def no_key(tmp_path, monkeypatch):
    """The real wandb on a machine where nobody has logged in."""
    wandb = pytest.importorskip("wandb")
    for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    wandb.teardown()
    yield
    wandb.teardown()


def test_online_without_a_key_is_refused(no_key):
    text = refused(RunConfig(wandb_mode="online"))
    assert text.startswith("run.wandb_mode=online: wandb has no key; ")
    assert "WANDB_API_KEY" in text
    check_tracker(RunConfig(wandb_mode="offline"))


def test_an_environment_that_says_otherwise_is_named(no_key, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    text = refused(RunConfig(wandb_mode="online"))
    assert text.startswith("run.wandb_mode=online: the environment says WANDB_MODE=offline; ")


def test_a_malformed_key_is_refused_and_not_shown(no_key, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "not!a!key")
    text = refused(RunConfig(wandb_mode="online"))
    assert text.startswith("run.wandb_mode=online: WANDB_API_KEY invalid")
    assert "not!a!key" not in text


def test_a_project_name_that_wandb_does_not_take():
    text = refused(RunConfig(wandb_project="team/discern"))
    assert text.startswith("run.wandb_project=team/discern: Invalid project name")


def test_a_disabled_wandb_is_not_checked(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    check_tracker(RunConfig(wandb_mode="disabled", wandb_project="team/discern"))
