"""Names of how turns and episodes end, good and bad; each failure has a counter in the metrics."""

from enum import StrEnum


class FinishReason(StrEnum):
    """How one generated turn ended."""

    STOP = "stop"
    LENGTH = "length"


class EpisodeEnd(StrEnum):
    """How one episode ended. The first group is normal, the second is a counted failure."""

    TURN_LIMIT = "turn_limit"
    ALL_SATISFIED = "all_satisfied"
    CONTEXT_FULL = "context_full"

    OPENING_TOO_LONG = "opening_too_long"
    ROLLOUT_FAILED = "rollout_failed"
    JUDGE_FAILED = "judge_failed"
    DEADLINE = "deadline"
    ACTOR_DIED = "actor_died"
    STALE = "stale"
    INTERNAL_ERROR = "internal_error"

    @property
    def is_failure(self) -> bool:
        """Whether nothing of the episode is trained; what was played of it stays on record."""
        return self not in (
            EpisodeEnd.TURN_LIMIT,
            EpisodeEnd.ALL_SATISFIED,
            EpisodeEnd.CONTEXT_FULL,
        )
