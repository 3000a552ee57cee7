"""One sentence encoder for all judge tests, a judge on it, and views made by hand."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from rl.data.labelled_replies import load_labelled_replies
from rl.judging.embedded import EmbeddedJudge
from rl.judging.encoder import SentenceEncoder
from rl.judging.interface import JudgeRequest, NodeQuestion
from rl.judging.labelled import LabelledRequest
from rl.judging.reply_view import ReplyView
from rl.judging.text import content_stems, sentences, strip_markup

FUNICULAR = NodeQuestion(
    id="1.1",
    text="The transport is a hillside funicular.",
    dimension="kind of transport",
    cues=("funicular", "hillside"),
    alternatives=("river ferry", "tram", "steam train"),
)
WORKER = NodeQuestion(
    id="2",
    text="The story follows someone who works on the line.",
    dimension="whose story it is",
    cues=("works on", "worker", "staff"),
    alternatives=("a tourist", "a student on the way home", "a local child"),
)
OPENING = (("user", "can you write a short story set on some old kind of public transport"),)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Encode with one thread, as a judge actor does: more wait for each other on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def encoder() -> SentenceEncoder:
    return SentenceEncoder()


@pytest.fixture(scope="session")
def judge(encoder: SentenceEncoder) -> EmbeddedJudge:
    return EmbeddedJudge(encoder)


@pytest.fixture
def ask() -> Callable[..., JudgeRequest]:
    """Make a request about the funicular and the worker."""

    def make(reply: str, nodes: Sequence[NodeQuestion] = (FUNICULAR, WORKER)) -> JudgeRequest:
        return JudgeRequest(OPENING, reply, tuple(nodes))

    return make


@pytest.fixture
def make_view() -> Callable[..., ReplyView]:
    """Make a view with the given clause and run vectors, one clause a sentence."""

    def make(reply: str, asked: str = "", clauses=(), runs=()) -> ReplyView:
        parts = sentences(reply)
        return ReplyView(
            reply=reply,
            plain=strip_markup(reply),
            asked=asked,
            asked_stems=content_stems(asked),
            sentences=parts,
            stems=tuple(content_stems(part.text) for part in parts),
            clauses=np.array(clauses, np.float32).reshape(-1, 2),
            clause_asks=np.array([part.asks for part in parts][: len(clauses)], bool),
            clause_sentence=np.arange(len(clauses)),
            runs=np.array(runs, np.float32).reshape(-1, 2),
        )

    return make


@pytest.fixture(scope="session")
def model_replies(shared_dir: Path) -> list[LabelledRequest]:
    """Labelled replies sampled from SmolLM2-135M, read where they lie and never fitted on."""
    file = shared_dir / "data" / "model_replies.jsonl"
    if not file.is_file():
        pytest.skip("model_replies.jsonl is not in the shared folder")
    return load_labelled_replies([file])
