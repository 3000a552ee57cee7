import random

from rl.judging.augment import FOREIGN_NODES, foreign_nodes, strike_listed_values
from rl.judging.interface import Engagement, JudgeRequest, NodeQuestion
from rl.judging.labelled import LabelledRequest

MET = NodeQuestion("1", "A moth.", "animal", ("moth", "wings"), ("brown owl", "bat", "badger"))
QUIET = NodeQuestion("2", "Round.", "outline", ("circle", "ring"), ("shield", "square", "hexagon"))


def item(task="a-1"):
    request = JudgeRequest((("user", "a logo"),), "A brown owl with wings.", (MET, QUIET))
    return LabelledRequest(task, "a", request, (Engagement.TANGENTIAL, Engagement.NONE), kind=None)


def test_used_values_are_struck_and_the_rest_stays():
    struck = strike_listed_values(item(), random.Random(0))
    node = struck.request.nodes[0]
    assert node.alternatives == ("bat", "badger")
    assert node.cues == ("moth",)
    assert node.text == MET.text
    assert struck.labels == item().labels
    assert struck.request.reply == item().request.reply


def test_nodes_not_engaged_lose_values_half_of_the_time():
    generator = random.Random(1)
    kept = [
        len(strike_listed_values(item(), generator).request.nodes[1].alternatives)
        for _ in range(200)
    ]
    assert set(kept) == {0, 1, 2, 3}
    assert 70 < kept.count(3) < 130


def test_foreign_nodes_come_from_other_tasks_and_are_none():
    pool = [("a-1", MET)] + [(f"a-{i}", QUIET) for i in range(2, 9)]
    pair = foreign_nodes(item(), pool, random.Random(0))
    assert pair.labels == (Engagement.NONE,) * FOREIGN_NODES
    assert MET not in pair.request.nodes
    assert foreign_nodes(item(), pool[:1], random.Random(0)).request.nodes == ()
