"""Labelled replies from task files, from rows with inlined nodes, and from folders."""

import json
from pathlib import Path

import pytest

from rl.data.labelled_replies import load_labelled_replies
from rl.data.tasks import TaskFileError, bundled_task_files, load_tasks
from rl.judging.interface import Engagement, ReplyKind
from rl.judging.labelled import labelled_requests

NODE = {"id": "1", "text": "It is a tram.", "dimension": "kind", "cues": ["tram"]}
ROW = {
    "id": "r1",
    "task": "svg-004",
    "state": {"discovered": [], "emerging": []},
    "user": "draw something",
    "reply": "A bus?",
    "frontier": [
        NODE | {"alternatives": ["bus"]},
        NODE | {"id": "2", "alternatives": []},
    ],
    "engaged": {"1": "tangential"},
}


def write(file: Path, *rows: object) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_rows_with_inlined_nodes(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", ROW, ROW | {"kind": "question", "engaged": {}})
    first, second = load_labelled_replies([file])
    assert first.task == "svg-004"
    assert first.domain == "svg"
    assert first.request.history == (("user", "draw something"),)
    assert [node.id for node in first.request.nodes] == ["1", "2"]
    assert first.request.nodes[0].alternatives == ("bus",)
    assert first.labels == (Engagement.TANGENTIAL, Engagement.NONE)
    assert first.kind is None
    assert second.labels == (Engagement.NONE, Engagement.NONE)
    assert second.kind is ReplyKind.QUESTION


def test_task_files_and_folders_of_either(tmp_path: Path) -> None:
    [svg] = bundled_task_files(["svg"])
    whole = labelled_requests(load_tasks([svg]))
    assert load_labelled_replies([svg]) == whole
    (tmp_path / "a.jsonl").write_bytes(svg.read_bytes())
    write(tmp_path / "b.jsonl", ROW)
    (tmp_path / "notes.txt").write_text("not read")
    assert len(load_labelled_replies([tmp_path])) == len(whole) + 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"engaged": {"9": "direct"}}, "engaged: '9' is no frontier node"),
        ({"engaged": {"1": "maybe"}}, "engaged['1']: expected one of none, direct, tangential"),
        ({"reply": "  "}, "reply: empty"),
        ({"kind": "poem"}, "kind: expected one of question, options"),
        ({"user": 3}, "user: expected a string, got int"),
        ({"frontier": [ROW["frontier"][0]] * 2}, "frontier[1].id: '1' is already"),
    ],
)
def test_a_bad_row_is_named_with_file_line_and_field(
    tmp_path: Path, change: dict, told: str
) -> None:
    file = write(tmp_path / "rows.jsonl", ROW, ROW | change)
    with pytest.raises(TaskFileError) as caught:
        load_labelled_replies([file])
    assert str(caught.value).startswith(f"{file}:2: ")
    assert told in str(caught.value)


def test_files_that_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(TaskFileError, match="no such file"):
        load_labelled_replies([tmp_path / "absent.jsonl"])
    with pytest.raises(TaskFileError, match=r"the folder holds no \.jsonl file"):
        load_labelled_replies([tmp_path])
    [svg] = bundled_task_files(["svg"])
    task = json.loads(svg.read_text().splitlines()[0]) | {"replies": []}
    with pytest.raises(TaskFileError, match="no labelled replies"):
        load_labelled_replies([write(tmp_path / "bare.jsonl", task)])
    (tmp_path / "broken.jsonl").write_text("{\n")
    with pytest.raises(TaskFileError, match=r"broken\.jsonl:1: invalid JSON"):
        load_labelled_replies([tmp_path / "broken.jsonl"])
