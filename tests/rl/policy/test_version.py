"""Names of adapter versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.policy.version import AdapterVersion

versions = st.builds(
    AdapterVersion,
    seat=st.from_regex(r"[a-z_]+", fullmatch=True),
    lineage=st.integers(0, 10**6),
    step=st.integers(0, 10**9),
)


def test_name_by_hand():
    assert str(AdapterVersion("assistant", 2, 17)) == "assistant@2.17"
    assert AdapterVersion.parse("user@0.4") == AdapterVersion("user", 0, 4)


@given(versions)
def test_names_read_back(version):
    assert AdapterVersion.parse(str(version)) == version


@given(versions, versions)
def test_different_versions_have_different_names(first, second):
    assert (str(first) == str(second)) == (first == second)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "assistant",
        "assistant@1",
        "assistant@1.",
        "@1.2",
        "assistant@1.2.3",
        "assistant@-1.2",
        "Assistant@1.2",
        "assistant@1.2 ",
        "assistant@1.2\n",
        "assistant 1.2",
        "../assistant@1.2",
    ],
)
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match=r"expected seat@lineage\.step"):
        AdapterVersion.parse(name)


def test_steps_are_ordered_as_numbers_within_a_lineage():
    made = [AdapterVersion("assistant", *pair) for pair in ((1, 0), (0, 10), (0, 9))]
    assert [str(version) for version in sorted(made)] == [
        "assistant@0.9",
        "assistant@0.10",
        "assistant@1.0",
    ]
