"""What a discovery judge is asked and what it answers (or why it abstains)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Engagement(StrEnum):
    """How a reply meets one intent node (DiscoverLLM, "response-driven state transitions")."""

    NONE = "none"
    DIRECT = "direct"
    TANGENTIAL = "tangential"


class ReplyKind(StrEnum):
    """What a reply is: a draft of the artefact, or one of three dialogue acts."""

    QUESTION = "question"
    OPTIONS = "options"
    DRAFT = "draft"
    CHITCHAT = "chitchat"


class AbstainReason(StrEnum):
    """Why a judge gave no judgement. The sample then leaves its group; it never scores 0."""

    DEADLINE = "deadline"
    OUT_OF_SCHEMA = "out_of_schema"
    BACKEND_ERROR = "backend_error"
    EMPTY_REPLY = "empty_reply"


@dataclass(frozen=True)
class NodeQuestion:
    """The part of an intent node that a judge may see."""

    id: str
    text: str
    dimension: str
    cues: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True)
class JudgeRequest:
    """One reply to judge.

    ``history`` holds (role, text) pairs before the reply, oldest first. ``nodes`` are the nodes
    that the kernel may move: the frontier, and discovered nodes that are not satisfied yet.
    """

    history: tuple[tuple[str, str], ...]
    reply: str
    nodes: tuple[NodeQuestion, ...]


@dataclass(frozen=True)
class NodeJudgement:
    """One node's label; ``near_misses`` counts distinct near-miss options of a tangential hit."""

    label: Engagement
    near_misses: int = 0
    evidence: str = ""


@dataclass(frozen=True)
class Judgement:
    """A judge's answer: the reply's kind, and a label for each node that the reply engages.

    A node missing from ``nodes`` is not engaged. ``options`` are the options that the reply
    offers and ``closest`` is the index of the one nearest to what the user wants, if any: the
    user turn may quote that option's text and nothing else of the judge's answer.
    """

    judge: str
    kind: ReplyKind
    nodes: Mapping[str, NodeJudgement]
    options: tuple[str, ...] = ()
    closest: int | None = None

    def label(self, node: str) -> Engagement:
        """Return the label of ``node``, which is ``NONE`` when the judge did not list it."""
        judgement = self.nodes.get(node)
        return Engagement.NONE if judgement is None else judgement.label


@dataclass(frozen=True)
class Abstention:
    """A judge's refusal to answer, with its reason."""

    judge: str
    reason: AbstainReason
    detail: str = field(default="", compare=False)


Verdict = Judgement | Abstention


class Judge(Protocol):
    """Anything that judges a batch of replies, one verdict for each request, in order."""

    name: str

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Judge ``requests``; failures become abstentions, never exceptions or zeros."""
        ...
