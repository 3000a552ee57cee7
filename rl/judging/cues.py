"""A judge that only looks for words: cues are direct, alternatives tangential. No model at all."""

import re
from collections.abc import Sequence
from functools import lru_cache

from rl.judging.interface import (
    AbstainReason,
    Abstention,
    Engagement,
    Judgement,
    JudgeRequest,
    NodeJudgement,
    NodeQuestion,
    ReplyKind,
    Verdict,
)


class CueJudge:
    """The plainest judge: for tests, quick trials, and as a floor that other judges must beat.

    It is blind to paraphrase and to questions. A reply is a question when it ends with a question
    mark, else a draft.
    """

    name = "cues"

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Judge ``requests``; an empty reply is abstained from."""
        return [self._judge_one(request) for request in requests]

    def _judge_one(self, request: JudgeRequest) -> Verdict:
        reply = request.reply.strip()
        if not reply:
            return Abstention(self.name, AbstainReason.EMPTY_REPLY)
        kind = ReplyKind.QUESTION if reply.endswith("?") else ReplyKind.DRAFT
        labels = {node.id: _label(node, reply.casefold()) for node in request.nodes}
        engaged = {node: label for node, label in labels.items() if label is not None}
        return Judgement(self.name, kind, engaged)


def _label(node: NodeQuestion, reply: str) -> NodeJudgement | None:
    if node.cues and (hit := _any_of(node.cues).search(reply)):
        return NodeJudgement(Engagement.DIRECT, evidence=hit.group())
    misses = [value for value in node.alternatives if _any_of((value,)).search(reply)]
    if misses:
        return NodeJudgement(Engagement.TANGENTIAL, len(misses), misses[0])
    return None


@lru_cache(maxsize=4096)
def _any_of(phrases: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds any of ``phrases`` on word boundaries, the longest first."""
    longest_first = sorted((phrase.casefold() for phrase in phrases), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")
