"""An LRU cache around any judge, keyed by the content of the request (specification §4)."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple

from rl.judging.interface import (
    AbstainReason,
    Abstention,
    Judge,
    JudgeRequest,
    Verdict,
)
from rl.judging.lru import LruCache


def content_hash(request: JudgeRequest) -> str:
    """Return a hash of everything a judge sees: history, reply and nodes, in order."""
    content = json.dumps(astuple(request), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def is_cacheable(verdict: Verdict) -> bool:
    """Return whether the same request would always get this verdict.

    A deadline, an answer out of schema or a backend's failure may pass, so it is asked again.
    """
    return not isinstance(verdict, Abstention) or verdict.reason is AbstainReason.EMPTY_REPLY


class CachedJudge:
    """Remembers the verdicts of ``inner``; equal requests of one batch reach it once.

    ``size`` bounds the verdicts kept (0: none). ``hits`` counts requests answered without asking
    ``inner`` (repeats inside a batch included), ``misses`` those that were asked.
    """

    def __init__(self, inner: Judge, size: int = 4096) -> None:
        self.inner = inner
        self.name = inner.name
        self.hits = 0
        self.misses = 0
        self._known = LruCache[Verdict](size)

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Judge ``requests``, asking the inner judge only for those not known yet."""
        keys = [content_hash(request) for request in requests]
        by_key = dict(zip(keys, requests, strict=True))
        missed = 0

        def ask(fresh: list[str]) -> list[Verdict]:
            nonlocal missed
            missed = len(fresh)
            return self.inner.judge([by_key[key] for key in fresh])

        verdicts = self._known.get_all(keys, ask, is_cacheable)
        self.misses += missed
        self.hits += len(keys) - missed
        return verdicts
