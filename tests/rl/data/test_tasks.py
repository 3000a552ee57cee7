"""Task files: every bundled one loads, and every fault is named with its file, line and field."""

import copy
import json

import pytest

from rl.data.tasks import (
    TRAINING_DOMAINS,
    TRANSFER_DOMAINS,
    TaskFileError,
    bundled_task_files,
    load_tasks,
)
from rl.judging.interface import Engagement, ReplyKind

GOOD = {
    "id": "t-1",
    "domain": "poems",
    "artifact_type": "poem",
    "artifact": "A poem.",
    "opening": "write me a poem",
    "known": ["1"],
    "tree": [
        {
            "id": "1",
            "text": "There is an animal.",
            "dimension": "who appears",
            "cues": ["animal"],
            "alternatives": ["a robot"],
            "children": [
                {
                    "id": "1.1",
                    "text": "It is a cat.",
                    "dimension": "which animal",
                    "cues": ["cat"],
                    "alternatives": ["a dog"],
                    "children": [],
                }
            ],
        }
    ],
    "replies": [
        {
            "state": {"discovered": ["1"], "emerging": ["1.1"]},
            "user": "hm",
            "reply": "A dog?",
            "kind": "question",
            "engaged": {"1.1": "tangential"},
        }
    ],
}


def changed(path, value):
    """Return GOOD with the value at ``path`` (keys and indices) replaced (``...``: removed)."""
    task = copy.deepcopy(GOOD)
    at = task
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return task


def write(tmp_path, *tasks, name="tasks.jsonl"):
    file = tmp_path / name
    file.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return file


def fault(*files):
    with pytest.raises(TaskFileError) as caught:
        load_tasks(files)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_all_bundled_files_load():
    training = load_tasks(bundled_task_files(TRAINING_DOMAINS))
    transfer = load_tasks(bundled_task_files(TRANSFER_DOMAINS))
    assert len(training) == 22 + 22 + 19
    assert len(transfer) == 4 + 4
    assert {task.domain for task in training} == set(TRAINING_DOMAINS)
    assert {task.domain for task in transfer} == set(TRANSFER_DOMAINS)
    assert all(len(task.replies) == 8 for task in training + transfer)
    assert all(11 <= len(task.tree) <= 14 for task in training + transfer)


def test_a_task_is_read_as_written(tmp_path):
    (task,) = load_tasks([write(tmp_path, GOOD)])
    assert (task.id, task.domain, task.known) == ("t-1", "poems", ("1",))
    assert (task.artifact_type, task.artifact, task.opening) == (
        "poem",
        "A poem.",
        "write me a poem",
    )
    assert list(task.tree.nodes) == ["1", "1.1"]
    cat = task.tree.nodes["1.1"]
    assert (cat.text, cat.dimension, cat.cues) == ("It is a cat.", "which animal", ("cat",))
    assert cat.alternatives == ("a dog",)
    assert task.tree.parents == {"1": None, "1.1": "1"}
    (reply,) = task.replies
    assert (reply.discovered, reply.emerging) == ({"1"}, {"1.1"})
    assert reply.kind is ReplyKind.QUESTION
    assert reply.engaged == {"1.1": Engagement.TANGENTIAL}


def test_replies_may_be_left_out_and_blank_lines_are_skipped(tmp_path):
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n" + json.dumps(changed(["replies"], ...)) + "\n\n")
    (task,) = load_tasks([file])
    assert task.replies == ()


NODE, CHILD = ["tree", 0], ["tree", 0, "children", 0]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ([*NODE, "dimension"], 5, "tree[0].dimension: expected a string, got int"),
        ([*NODE, "text"], None, "tree[0].text: expected a string, got null"),
        ([*CHILD, "cues"], "cat", "tree[0].children[0].cues: expected an array, got str"),
        ([*CHILD, "cues", 0], 7, "tree[0].children[0].cues[0]: expected a string, got int"),
        ([*CHILD, "children"], ..., "tree[0].children[0].children: missing"),
        (["opening"], ..., "opening: missing"),
        (["tree"], [3], "tree[0]: expected an object, got int"),
        (["opening"], "  ", "opening: empty"),
        (["id"], "", "id: empty"),
        ([*NODE, "text"], "", "tree[0].text: empty"),
        ([*CHILD, "dimension"], "\t", "tree[0].children[0].dimension: empty"),
        ([*CHILD, "cues", 0], "", "tree[0].children[0].cues[0]: empty"),
        (["tree"], [], "tree: empty: at least one root is needed"),
        (["known"], ["1.1"], "known[0]: '1.1' is no root; the roots are 1"),
        (["known"], ["1", "9"], "known[1]: '9' is no root; the roots are 1"),
        ([*CHILD, "id"], "2.1", "tree[0].children[0].id: '2.1' is not '1' and one more part"),
        ([*CHILD, "id"], "1.1.1", "tree[0].children[0].id: '1.1.1' is not '1' and one more part"),
        ([*CHILD, "id"], "1.", "tree[0].children[0].id: '1.' is not '1' and one more part"),
        (["replies", 0, "kind"], "sonnet", "replies[0].kind: expected one of question, options, "),
        (["replies", 0, "engaged"], {"4": "direct"}, "replies[0].engaged: '4' is no node"),
        (
            ["replies", 0, "engaged"],
            {"1.1": "near"},
            "replies[0].engaged['1.1']: expected one of direct, tangential, got 'near'",
        ),
        (
            ["replies", 0, "state", "emerging"],
            ["1.7"],
            "replies[0].state.emerging[0]: '1.7' is no node",
        ),
    ],
)
def test_a_fault_names_file_line_and_field(tmp_path, path, value, expected):
    other = changed(["id"], "t-0")
    file = write(tmp_path, other, other | {"id": "t-00"}, changed(path, value))
    assert fault(file).startswith(f"{file}:3: {expected}")


def test_a_root_id_with_a_dot_is_refused(tmp_path):
    file = write(tmp_path, changed([*NODE, "id"], "1.0") | {"known": []})
    assert fault(file) == f"{file}:1: tree[0].id: '1.0' is not one without a dot"


def test_a_node_id_given_twice_is_refused(tmp_path):
    twin = copy.deepcopy(GOOD["tree"][0]["children"][0])
    task = changed([*NODE, "children"], [twin, twin])
    file = write(tmp_path, task)
    assert fault(file) == (
        f"{file}:1: tree[0].children[1].id: '1.1' is already the id of another node"
    )


def test_a_task_id_given_twice_is_refused_across_files(tmp_path):
    first = write(tmp_path, GOOD, name="a.jsonl")
    second = write(tmp_path, changed(["id"], "t-2"), GOOD, name="b.jsonl")
    assert fault(first, second) == f"{second}:2: id: 't-1' is already at {first}:1"


def test_invalid_json_is_refused(tmp_path):
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(GOOD) + "\n{not json\n")
    assert fault(file).startswith(f"{file}:2: invalid JSON: ")


def test_a_line_that_is_no_object_is_refused(tmp_path):
    file = write(tmp_path, [1])
    assert fault(file) == f"{file}:1: expected an object, got array"


def test_text_that_is_not_utf8_is_refused(tmp_path):
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(json.dumps(GOOD).encode().replace(b"poems", b"po\xffms"))
    assert fault(file).startswith(f"{file}:1: invalid JSON: ")


def test_bottomless_nesting_is_refused(tmp_path):
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"id": "x", "tree": ' + '[{"children": ' * 50_000)
    assert fault(file).startswith(f"{file}:1: invalid JSON: ")


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_is_refused(tmp_path, content):
    file = tmp_path / "tasks.jsonl"
    file.write_text(content)
    assert fault(file).startswith(f"{file}: the file is empty")


def test_a_missing_file_is_refused(tmp_path):
    file = tmp_path / "none.jsonl"
    assert fault(file) == f"{file}: no such file"


def test_a_folder_is_refused(tmp_path):
    assert fault(tmp_path).startswith(f"{tmp_path}: cannot be read: ")


def test_an_unknown_domain_names_the_bundled_ones():
    with pytest.raises(TaskFileError, match=r"'cooking'.*creative_writing.*web_development"):
        bundled_task_files(["svg", "cooking"])


def test_a_byte_order_mark_is_no_part_of_the_first_task(tmp_path):
    [bundled] = bundled_task_files(["svg"])
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + bundled.read_bytes().replace(b"\n", b"\r\n"))
    assert load_tasks([file]) == load_tasks([bundled])
