import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, confusion_matrix, precision_recall_fscore_support

from rl.judging.agreement import agreement, bootstrap_by_task, macro_f1

LABELS = ("none", "direct", "tangential")


def test_hand_worked_case():
    gold = ["none", "none", "none", "direct", "direct", "tangential"]
    said = ["none", "none", "direct", "direct", "none", "tangential"]
    found = agreement(gold, said, LABELS)
    assert found.confusion == ((2, 1, 0), (1, 1, 0), (0, 0, 1))
    assert found.accuracy == pytest.approx(4 / 6)
    # chance: (3·3 + 2·2 + 1·1) / 36 = 14/36; (24/36 − 14/36) / (22/36)
    assert found.kappa == pytest.approx(10 / 22)
    assert found.macro_f1 == pytest.approx((2 / 3 + 1 / 2 + 1) / 3)
    assert found.per_label["direct"].precision == 0.5
    assert found.per_label["none"].support == 3


@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=2))
def test_equals_scikit_learn(pairs):
    gold, said = zip(*pairs, strict=True)
    found = agreement(gold, said, LABELS)
    np.testing.assert_array_equal(found.confusion, confusion_matrix(gold, said, labels=LABELS))
    used = [label for label in LABELS if label in gold + said]
    precision, recall, f1, support = precision_recall_fscore_support(
        gold, said, labels=used, zero_division=0
    )
    assert found.macro_f1 == pytest.approx(f1.mean())
    for i, label in enumerate(used):
        score = found.per_label[label]
        assert (score.precision, score.recall, score.f1, score.support) == pytest.approx(
            (precision[i], recall[i], f1[i], support[i])
        )
    if len(set(gold + said)) > 1:
        assert found.kappa == pytest.approx(cohen_kappa_score(gold, said))


def test_one_label_everywhere_has_kappa_zero():
    assert agreement(["none"] * 3, ["none"] * 3, LABELS).kappa == 0.0


def test_as_dict_is_json():
    found = agreement(["none", "direct"], ["none", "none"], LABELS).as_dict()
    assert json.loads(json.dumps(found))["per_label"]["direct"]["recall"] == 0.0


@pytest.mark.parametrize(
    ("gold", "said", "message"),
    [
        ([], [], "no labelled items"),
        (["none"], [], "1 gold labels but 0"),
        (["none"], ["maybe"], "maybe"),
    ],
)
def test_bad_input(gold, said, message):
    with pytest.raises(ValueError, match=message):
        agreement(gold, said, LABELS)


def test_bootstrap_draws_whole_tasks():
    # Task a is all right and b all wrong: a draw of two tasks has accuracy 0, 0.5 or 1.
    def accuracy(counts):
        return float(np.trace(counts) / counts.sum())

    gold, said = ["none"] * 6, ["none"] * 3 + ["direct"] * 3
    interval = bootstrap_by_task(gold, said, list("aaabbb"), LABELS, accuracy, draws=200)
    assert (interval.low, interval.high) == (0.0, 1.0)
    single = bootstrap_by_task(gold, said, ["a"] * 6, LABELS, accuracy, draws=20)
    assert (single.low, single.high) == (0.5, 0.5)


def test_bootstrap_is_seeded_and_brackets_the_estimate():
    generator = np.random.default_rng(3)
    gold = [LABELS[i] for i in generator.integers(3, size=300)]
    said = [
        g if keep else "none" for g, keep in zip(gold, generator.random(300) < 0.8, strict=True)
    ]
    tasks = [str(i // 10) for i in range(300)]
    first = bootstrap_by_task(gold, said, tasks, LABELS, macro_f1, draws=300)
    assert first == bootstrap_by_task(gold, said, tasks, LABELS, macro_f1, draws=300)
    assert first.low < agreement(gold, said, LABELS).macro_f1 < first.high


def test_bootstrap_needs_equal_lengths():
    with pytest.raises(ValueError, match="equally long"):
        bootstrap_by_task(["none"], ["none"], [], LABELS)
