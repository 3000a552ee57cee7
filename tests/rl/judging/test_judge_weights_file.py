import json

import pytest

from rl.data.tasks import TRAINING_DOMAINS, bundled_task_files, load_tasks
from rl.judging.weights_file import DEFAULT_WEIGHTS, WeightsError, load_weights, save_weights


def test_the_shipped_file_names_what_it_was_fitted_on():
    fitted = load_weights().fitted
    used, held_out = set(fitted["tasks"]), set(fitted["held_out"])
    bundled = {task.id for task in load_tasks(bundled_task_files(TRAINING_DOMAINS))}
    assert used | held_out == bundled
    assert not used & held_out
    assert len(held_out) == 21


def test_round_trip(tmp_path):
    save_weights(load_weights(), tmp_path / "w.json")
    assert (tmp_path / "w.json").read_text() == DEFAULT_WEIGHTS.read_text()


def _broken(tmp_path, change):
    data = json.loads(DEFAULT_WEIGHTS.read_text())
    change(data)
    path = tmp_path / "w.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.update(version=0), "version 0"),
        (lambda data: data.pop("kind"), "'kind' is missing"),
        (lambda data: data["node"]["features"].reverse(), "fit them again"),
        (lambda data: data["node"].update(labels=["no", "yes", "maybe"]), "node.labels"),
        (lambda data: data["node"].update(intercepts=[1.0]), "intercepts has shape"),
        (lambda data: data.update(direct_threshold="high"), "high"),
    ],
)
def test_an_unusable_file_is_named_with_its_fault(tmp_path, change, message):
    path = _broken(tmp_path, change)
    with pytest.raises(WeightsError, match=message) as raised:
        load_weights(path)
    assert str(path) in str(raised.value)


def test_missing_file_and_broken_json(tmp_path):
    with pytest.raises(WeightsError, match="cannot be read"):
        load_weights(tmp_path / "none.json")
    (tmp_path / "w.json").write_text("{")
    with pytest.raises(WeightsError, match=r"w\.json"):
        load_weights(tmp_path / "w.json")
