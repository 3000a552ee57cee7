"""How a language model is asked to judge a reply, and how its answer is read."""

from collections.abc import Mapping
from typing import Any

import msgspec

from rl.judging.interface import (
    Engagement,
    Judgement,
    JudgeRequest,
    NodeJudgement,
    NodeQuestion,
    ReplyKind,
)
from rl.llm.client import OutOfSchemaError

MAX_NEAR_MISSES = 20  # more distinct options than a reply holds

_INSTRUCTIONS = """\
You judge one reply of an assistant to a user who does not know yet what exactly they want.
You get the dialogue, the reply, and the user's hidden wishes by id. For each wish decide:
- "direct": the reply asks the user about just this (its dimension), or shows or offers this \
wish's own value;
- "tangential": the reply commits to, shows or offers another value of the same dimension, \
without this wish's value;
- "none": the reply decides and asks nothing on that dimension. Most wishes are "none".
Repeating what the user said already counts for nothing. Judge what stands in the reply, not what \
could follow from it.
"near_misses": for a tangential wish the number of distinct other values in the reply, else 0.
"evidence": the words of the reply that show it, copied exactly, or an empty text.
"kind": "question" if the reply mostly asks, "options" if it offers a choice, "draft" if it is the \
artefact or part of it, else "chitchat".
"options": the options that the reply offers, copied exactly, in order; empty without any.
"closest": the index of the option nearest to a wish, counted from 0, or null.
Answer with one JSON object and nothing else."""


class _NodeAnswer(msgspec.Struct, forbid_unknown_fields=True):
    label: Engagement
    near_misses: int
    evidence: str


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    kind: ReplyKind
    wishes: dict[str, _NodeAnswer]
    options: list[str]
    closest: int | None


_DECODER = msgspec.json.Decoder(_Answer)


def judge_messages(request: JudgeRequest) -> tuple[tuple[str, str], ...]:
    """Return the messages that ask for a judgement of ``request``."""
    dialogue = "\n".join(f"{role}: {text}" for role, text in request.history)
    wishes = "\n".join(map(_wish, request.nodes)) or "(none)"
    content = f"# Dialogue\n{dialogue}\n\n# Reply\n{request.reply}\n\n# Wishes\n{wishes}"
    return (("system", _INSTRUCTIONS), ("user", content))


def judge_schema(request: JudgeRequest) -> dict[str, Any]:
    """Return the JSON schema of the answer: every node has its own required field."""
    wish = {
        "type": "object",
        "properties": {
            "label": {"type": "string", "enum": [label.value for label in Engagement]},
            "near_misses": {"type": "integer", "minimum": 0, "maximum": MAX_NEAR_MISSES},
            "evidence": {"type": "string", "maxLength": 200},
        },
        "required": ["label", "near_misses", "evidence"],
        "additionalProperties": False,
    }
    ids = [node.id for node in request.nodes]
    return {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": [kind.value for kind in ReplyKind]},
            "wishes": {
                "type": "object",
                "properties": dict.fromkeys(ids, wish),
                "required": ids,
                "additionalProperties": False,
            },
            "options": {
                "type": "array",
                "items": {"type": "string", "maxLength": 200},
                "maxItems": 12,
            },
            "closest": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
        },
        "required": ["kind", "wishes", "options", "closest"],
        "additionalProperties": False,
    }


def read_judgement(judge: str, request: JudgeRequest, text: str) -> Judgement:
    """Read an answer.

    Evidence and options that do not stand in the reply are dropped: the user may quote an option,
    so a model must not put words into the reply.

    Raises:
        OutOfSchemaError: it is not what was asked for.
    """
    try:
        answer = _DECODER.decode(text)
    except msgspec.MsgspecError as error:
        raise OutOfSchemaError(f"not the JSON object that was asked for: {error}") from None
    wanted = [node.id for node in request.nodes]
    if sorted(answer.wishes) != sorted(wanted):
        raise OutOfSchemaError(f"wishes are {sorted(answer.wishes)}, but {wanted} were asked about")
    options, closest = _offered(request.reply, answer.options, answer.closest)
    return Judgement(
        judge=judge,
        kind=answer.kind,
        nodes=_engaged(request.reply, answer.wishes),
        options=options,
        closest=closest,
    )


def _engaged(reply: str, wishes: Mapping[str, _NodeAnswer]) -> dict[str, NodeJudgement]:
    return {
        node: NodeJudgement(
            label=wish.label,
            near_misses=_near_misses(wish),
            evidence=wish.evidence if wish.evidence in reply else "",
        )
        for node, wish in wishes.items()
        if wish.label is not Engagement.NONE
    }


def _near_misses(wish: _NodeAnswer) -> int:
    """A tangential hit is at least one near miss; no other label has any."""
    if wish.label is not Engagement.TANGENTIAL:
        return 0
    return min(max(1, wish.near_misses), MAX_NEAR_MISSES)


def _offered(
    reply: str, options: list[str], closest: int | None
) -> tuple[tuple[str, ...], int | None]:
    kept = [index for index, option in enumerate(options) if option.strip() and option in reply]
    chosen = kept.index(closest) if closest in kept else None
    return tuple(options[index] for index in kept), chosen


def _wish(node: NodeQuestion) -> str:
    values = f"; other values: {', '.join(node.alternatives)}" if node.alternatives else ""
    return f"{node.id}: {node.text} (dimension: {node.dimension}{values})"
