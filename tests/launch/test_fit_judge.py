import json

import pytest

from launch.fit_judge import main
from rl.judging.weights_file import DEFAULT_WEIGHTS


def test_a_folder_without_an_encoder_is_named(tmp_path, capsys):
    assert main(["--dry-run", "--encoder", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert str(tmp_path) in error and "pip install" in error


@pytest.mark.parametrize("folds", ["1", "43"])
def test_impossible_folds(folds, capsys):
    assert main(["--dry-run", "--folds", folds]) == 2
    assert capsys.readouterr().err == f"error: --folds must be from 2 to 42: {folds}\n"


@pytest.mark.heavy
def test_the_shipped_file_is_what_it_writes(tmp_path, capsys):
    assert main(["--output", str(tmp_path / "w.json")]) == 0
    written = json.loads((tmp_path / "w.json").read_text())
    assert written["fitted"] == json.loads(DEFAULT_WEIGHTS.read_text())["fitted"]
    report = capsys.readouterr().out
    for part in ("cross-validation by task", "held-out tasks", "transfer domains", "wrote"):
        assert part in report


def test_without_arguments_it_prints_them_and_writes_nothing(capsys):
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 0
    assert "--output" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["--folds", "3"])
    assert caught.value.code == 2


def test_a_file_that_cannot_be_written_is_said_before_fitting(tmp_path, capsys):
    for output in ("", str(tmp_path), str(tmp_path / "absent" / "w.json")):
        assert main(["--output", output]) == 2
        assert "expected a file in a folder" in capsys.readouterr().err
