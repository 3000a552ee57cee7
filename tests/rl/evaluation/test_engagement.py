"""Agreement of a judge with labels, by a scripted judge and hand-worked figures."""

import pytest

from rl.evaluation.engagement import measure_engagement, table
from rl.judging.interface import (
    AbstainReason,
    Abstention,
    Engagement,
    Judgement,
    JudgeRequest,
    NodeJudgement,
    NodeQuestion,
    ReplyKind,
)
from rl.judging.labelled import LabelledRequest

N, D, T = Engagement.NONE, Engagement.DIRECT, Engagement.TANGENTIAL
NODES = (NodeQuestion("1", "a", "a"), NodeQuestion("2", "b", "b"))


class ScriptedJudge:
    """Answers each reply by its text: two letters, or abstains on "no"."""

    name = "scripted"

    def judge(self, requests):
        return [self._one(request.reply) for request in requests]

    def _one(self, reply):
        if reply == "no":
            return Abstention(self.name, AbstainReason.DEADLINE, "too slow")
        letters = {"n": N, "d": D, "t": T}
        nodes = {
            node: NodeJudgement(letters[letter]) for node, letter in zip("12", reply, strict=True)
        }
        return Judgement(self.name, ReplyKind.DRAFT, nodes)


def item(reply, *labels, task="a-1", kind=None):
    return LabelledRequest(task, "a", JudgeRequest((("user", "hi"),), reply, NODES), labels, kind)


def test_figures_worked_out_by_hand():
    report = measure_engagement(
        ScriptedJudge(),
        [
            item("nd", N, D, kind=ReplyKind.DRAFT),
            item("tn", T, N, task="a-2", kind=ReplyKind.OPTIONS),
            item("nt", N, N),
            item("no", D, D),
        ],
    )
    # Gold n d t n n n, said n d t n n t: 5 of 6 agree; by chance (4·3 + 1·1 + 1·2) / 36 = 15 / 36.
    assert report.nodes.n == 6
    assert report.nodes.accuracy == pytest.approx(5 / 6)
    assert report.nodes.kappa == pytest.approx((5 / 6 - 15 / 36) / (1 - 15 / 36))
    assert report.nodes.macro_f1 == pytest.approx((6 / 7 + 1 + 2 / 3) / 3)
    assert report.kinds is not None
    assert (report.kinds.n, report.kinds.accuracy) == (2, 0.5)
    assert report.abstained == {"deadline": 1}
    assert report.kappa_interval is not None
    assert report.kappa_interval.low <= report.nodes.kappa <= report.kappa_interval.high
    values = report.as_dict()
    assert {"accuracy", "macro_f1", "kappa", "per_label", "n", "kind"} <= values.keys()
    assert values["per_label"]["tangential"]["recall"] == 1.0
    shown = table(report)
    assert "accuracy 0.833" in shown
    assert "abstained, and left out: deadline 1" in shown


def test_one_task_has_no_interval_and_unlabelled_kinds_no_figure():
    report = measure_engagement(ScriptedJudge(), [item("nd", N, D)])
    assert report.kappa_interval is None
    assert report.kinds is None
    assert report.as_dict()["kind"] is None


def test_a_judge_that_abstains_on_all_gives_its_reason_and_no_figure():
    with pytest.raises(
        ValueError, match="scripted judged no node of 2 replies: deadline: too slow"
    ):
        measure_engagement(ScriptedJudge(), [item("no", N, D), item("no", N, D)])
