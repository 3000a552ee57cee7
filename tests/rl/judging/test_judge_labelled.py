from rl.data.tasks import bundled_task_files, load_tasks
from rl.judging.interface import Engagement
from rl.judging.labelled import labelled_requests


def _labels(item):
    nodes = [node.id for node in item.request.nodes]
    return dict(zip(nodes, [label.value for label in item.labels], strict=True))


def test_each_labelled_reply_asks_about_its_frontier():
    task = load_tasks(bundled_task_files(["creative_writing"]))[0]
    first, second = labelled_requests([task])[:2]
    assert (task.id, first.task, first.domain) == ("creative_writing-001",) * 2 + (
        "creative_writing",
    )
    none = dict.fromkeys(("1.2", "3", "4"), "none")
    assert _labels(first) == none | {"1.1": "direct", "2": "direct"}
    assert _labels(second)["1.1"] == "tangential"
    [vehicle] = [node for node in first.request.nodes if node.id == "1.1"]
    assert vehicle.alternatives == ("river ferry", "tram", "steam train")
    assert first.request.history == (("user", task.opening),)


def test_every_label_of_the_bundled_tasks_is_used():
    tasks = load_tasks(bundled_task_files(["creative_writing", "svg", "travel_planning"]))
    gold = sum(len(reply.engaged) for task in tasks for reply in task.replies)
    used = sum(label is not Engagement.NONE for r in labelled_requests(tasks) for label in r.labels)
    assert used == gold > 0
