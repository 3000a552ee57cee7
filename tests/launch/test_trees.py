"""``launch/trees.py`` against recorded answers: tasks, failures, resuming, arguments."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from launch.trees import main, read_arguments
from rl.config.errors import ConfigError
from rl.data.tasks import TaskFileError, load_tasks
from tests.llm_server import answer, serve

ENDPOINT = "judge.endpoint=http://127.0.0.1/v1"
LEAVES = ["It is set on a tram.", "It ends in rain."]
PLACE = {"cues": ["tram"], "alternatives": ["bus"]}
ANSWERS = {
    "List the requirements": {"requirements": LEAVES},
    "next broader level": {"statements": [{"text": "It is an everyday tale.", "covers": [1, 2]}]},
    "Arrange them": {
        "nodes": [
            {"statement": 3, "id": "1", "dimension": "scale", "cues": ["daily"]}
            | {"alternatives": ["epic"]},
            {"statement": 2, "id": "1.2", "dimension": "ending", "cues": ["rain"]}
            | {"alternatives": ["sun"]},
            {"statement": 1, "id": "1.1", "dimension": "setting"} | PLACE,
        ]
    },
    "first message": {"opening": "a daily sort of story please", "known": ["1"]},
}


def scripted(body: dict[str, Any]) -> tuple[int, bytes]:
    """Answer each step by the words of its question; artefacts that say "bad" fail."""
    question = body["messages"][1]["content"]
    if "bad" in question:
        return 200, answer("no idea")
    found = next(reply for words, reply in ANSWERS.items() if words in question)
    return 200, answer(json.dumps(found))


def write(file: Path, *rows: dict[str, str]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def story(text: str, **changes: str) -> dict[str, str]:
    return {"artifact_type": "story", "text": text} | changes


def test_artefacts_become_tasks_and_failures_are_listed_and_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "a.jsonl", story("one", id="s-1"), story("bad"), story("two"))
    out = tmp_path / "made" / "tasks.jsonl"
    arguments = [f"artifacts={source}", f"out={out}", "domain=stories", "judge.retries=0"]
    with serve(scripted) as server:
        assert main([*arguments, f"judge.endpoint={server.url}"]) == 1
        asked = Counter(len(body["messages"]) for body in server.asked)
        assert asked == {2: 2 * 4 + 1, 4: 2}  # the bad one is asked three times, with the reason
        # The last line of a killed process is torn: it is cut off, and built again.
        out.write_bytes(out.read_bytes()[:-20])
        first = len(server.asked)
        assert main([*arguments, f"judge.endpoint={server.url}"]) == 1
        assert len(server.asked) - first == 4 + 3
    tasks = {task.id: task for task in load_tasks([out])}
    assert len(tasks) == 2
    task = tasks["s-1"]
    assert (task.domain, task.artifact, task.known) == ("stories", "one", ("1",))
    assert [node.id for node in task.tree] == ["1", "1.1", "1.2"]
    assert task.tree.nodes["1.1"].text == "It is set on a tram."
    assert task.opening == "a daily sort of story please"
    [failure] = map(json.loads, out.with_name("tasks.failed.jsonl").read_text().splitlines())
    assert failure["id"].startswith("stories-")
    assert (failure["step"], failure["reason"]) == ("requirements", "out_of_schema")
    shown = capsys.readouterr().out
    assert "2 of 3 tasks" in shown
    assert "failed: 1 × requirements: out_of_schema" in shown


def test_all_built_is_status_0_and_a_second_run_asks_nothing(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", story("one"))
    arguments = [f"artifacts={source}", f"out={tmp_path / 'tasks.jsonl'}"]
    with serve(scripted) as server:
        for _ in range(2):
            assert main([*arguments, f"judge.endpoint={server.url}"]) == 0
        assert len(server.asked) == 4


@pytest.mark.parametrize(("status", "body"), [(500, b""), (429, b"{}"), (200, b"<html>")])
def test_an_endpoint_that_fails_is_a_counted_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int, body: bytes
) -> None:
    source = write(tmp_path / "a.jsonl", story("one"))
    with serve((status, body)) as server:
        arguments = [f"artifacts={source}", f"out={tmp_path / 'tasks.jsonl'}", "judge.retries=0"]
        assert main([*arguments, f"judge.endpoint={server.url}"]) == 1
    assert "failed: 1 × requirements: backend_error" in capsys.readouterr().out


def test_an_endpoint_that_never_answers_meets_the_deadline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "a.jsonl", story("one"))
    with serve((0, b"")) as server:
        arguments = [f"artifacts={source}", f"out={tmp_path / 'tasks.jsonl'}", "judge.retries=0"]
        assert main([*arguments, f"judge.endpoint={server.url}", "judge.deadline_s=0.5"]) == 1
    assert "failed: 1 × requirements: deadline" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (story(" "), ":2: text: empty"),
        ({"text": "a"}, ":2: artifact_type: missing"),
        (story("a", id="x"), ":2: id: 'x' stands there already"),
        (story("a", kind="y"), "unknown field `kind`"),
    ],
)
def test_an_artefact_that_cannot_be_used_is_named_before_anything_is_asked(
    tmp_path: Path, row: dict[str, str], told: str
) -> None:
    source = write(tmp_path / "a.jsonl", story("one", id="x"), row)
    with pytest.raises(TaskFileError) as caught:
        read_arguments(
            [f"artifacts={source}", "out=tasks.jsonl", "judge.endpoint=http://127.0.0.1/v1"]
        )
    assert told in str(caught.value)


def test_arguments_that_are_missing_or_wrong(
    tmp_path: Path,
) -> None:
    source = write(tmp_path / "a.jsonl", story("one"))
    with pytest.raises(ConfigError, match="artifacts=: expected a JSONL file"):
        read_arguments(["out=x"])
    with pytest.raises(ConfigError, match=r"judge\.endpoint=: expected a base URL"):
        read_arguments([f"artifacts={source}", "out=x"])
    with pytest.raises(ConfigError, match=r"judge\.backend=cues: expected llm"):
        read_arguments([f"artifacts={source}", "out=x", "judge.backend=cues"])
    for out in (source, tmp_path / "other" / ".." / "a.jsonl"):
        with pytest.raises(ConfigError, match="would be written over artifacts="):
            read_arguments([f"artifacts={source}", f"out={out}", ENDPOINT])


@pytest.mark.parametrize(
    "content",
    [
        "my notes\n",
        "my notes",
        '{"id": "x"}\n',
        "a\nb",
        '{"id":"1"}\nmy notes',
        "[1]",
        '{"id":"t"}',
    ],
)
def test_a_file_that_is_no_task_file_is_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    source = write(tmp_path / "a.jsonl", story("one"))
    occupied = tmp_path / "notes.jsonl"
    occupied.write_text(content)
    assert main([f"artifacts={source}", f"out={occupied}", ENDPOINT]) == 2
    assert f"error: {occupied}" in capsys.readouterr().err
    assert occupied.read_text() == content


def test_a_task_file_without_its_last_newline_keeps_its_last_task(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", story("one"), story("two"))
    out = tmp_path / "tasks.jsonl"
    with serve(scripted) as server:
        arguments = [f"artifacts={source}", f"judge.endpoint={server.url}"]
        assert main([*arguments, f"out={out}"]) == 0
        whole = out.read_bytes()
        out.write_bytes(whole.rstrip(b"\n"))
        link = tmp_path / "link.jsonl"
        link.symlink_to(out)
        assert main([*arguments, f"out={link}"]) == 0
        assert len(server.asked) == 8
    assert out.read_bytes() == whole
    assert link.is_symlink()
