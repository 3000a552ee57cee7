"""Learning rates worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.config.schema import OptimizerConfig
from rl.grpo.schedule import learning_rate


def rates(updates, total, **changes):
    config = OptimizerConfig(**({"learning_rate": 8.0} | changes))
    return [learning_rate(update, total, config) for update in range(updates)]


def test_constant():
    assert rates(4, 4, schedule="constant") == [8.0] * 4


def test_warm_up_is_linear_and_ends_at_the_full_rate():
    assert rates(6, 6, schedule="constant", warmup_steps=4) == [2.0, 4.0, 6.0, 8.0, 8.0, 8.0]


def test_cosine():
    # cos 0, cos 45°, cos 90°, cos 135°; 0 would be reached at update 4
    half = math.sqrt(0.5)
    expected = [8.0, 4 * (1 + half), 4.0, 4 * (1 - half)]
    assert rates(4, 4, schedule="cosine") == pytest.approx(expected)


def test_cosine_begins_after_the_warm_up():
    assert rates(6, 6, schedule="cosine", warmup_steps=2) == pytest.approx(
        [4.0, 8.0, *rates(4, 4, schedule="cosine")]
    )


def test_cosine_stays_at_zero_beyond_its_end():
    assert rates(8, 4, schedule="cosine")[4:] == pytest.approx([0.0] * 4, abs=1e-15)


def test_warm_up_as_long_as_the_run():
    assert rates(3, 2, schedule="cosine", warmup_steps=2) == [4.0, 8.0, 8.0]


@given(
    update=st.integers(0, 200),
    total=st.integers(1, 100),
    warmup=st.integers(0, 100),
    schedule=st.sampled_from(["cosine", "constant"]),
)
def test_rate_is_between_zero_and_the_peak(update, total, warmup, schedule):
    config = OptimizerConfig(learning_rate=3e-4, warmup_steps=warmup, schedule=schedule)
    assert 0 <= learning_rate(update, total, config) <= 3e-4


@given(update=st.integers(0, 50), schedule=st.sampled_from(["cosine", "constant"]))
def test_rate_of_zero_stays_zero(update, schedule):
    config = OptimizerConfig(learning_rate=0.0, warmup_steps=5, schedule=schedule)
    assert learning_rate(update, 40, config) == 0.0
