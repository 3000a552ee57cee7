"""``launch/evaluate.py``: arguments, errors in one line, and the engagement suite's two outputs."""

import json
from pathlib import Path

import pytest

from launch.evaluate import main, read_arguments
from rl.config.errors import ConfigError
from rl.data.tasks import bundled_task_files


def test_files_are_named_with_commas_brackets_or_as_further_arguments() -> None:
    expected = (Path("a"), Path("b"))
    for given in (["data=a,b"], ["data=[a,b]"], ["data=a", "b"]):
        suite, request = read_arguments(["suite=engagement", *given, "judge.backend=cues"])
        assert suite == "engagement"
        assert request.data == expected
        assert request.config.judge.backend == "cues"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["data=a"], "suite=: expected one of engagement"),
        (["suite=engagment"], "suite=engagment: expected one of engagement"),
        (["suite=engagement", "data=a", "data=b"], "data=b: data is given twice"),
        (["suite=engagement", "judge.backnd=cues"], "judge.backend"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_arguments(arguments)
    assert told in str(caught.value)


def test_errors_are_one_line_with_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["suite=engagement"]) == 2
    assert "error: data=: expected one or more files" in capsys.readouterr().err
    assert main(["suite=engagement", f"data={tmp_path / 'absent'}", "judge.backend=cues"]) == 2
    assert "no such file" in capsys.readouterr().err


def test_engagement_is_printed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [svg] = bundled_task_files(["svg"])
    out = tmp_path / "folder" / "result.json"
    arguments = ["suite=engagement", f"data={svg}", "judge.backend=cues", f"out={out}"]
    assert main(arguments) == 0
    result = json.loads(out.read_text())
    assert result["judge"] == "cues"
    assert result["n"] > 500
    assert 0 < result["kappa"] < 1
    assert set(result["per_label"]) == {"none", "direct", "tangential"}
    assert f"kappa {result['kappa']:.3f}" in capsys.readouterr().out


def test_nothing_is_overwritten_and_no_file_read_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [svg] = bundled_task_files(["svg"])
    arguments = ["suite=engagement", f"data={svg}", "judge.backend=cues"]
    mine = tmp_path / "mine.json"
    mine.write_text("mine")
    assert main([*arguments, f"out={mine}"]) == 2
    assert mine.read_text() == "mine"
    assert f"out={mine}: is there already" in capsys.readouterr().err
    assert main([*arguments, f"out={mine / 'below.json'}"]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert main([*arguments, str(svg.parent)]) == 2
    assert "svg" in capsys.readouterr().err
