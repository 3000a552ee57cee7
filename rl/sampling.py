"""What a seat asks of a rollout worker, and what it gets: K completions of one token prefix."""

from dataclasses import dataclass
from typing import Protocol

from rl.episode.outcome import FinishReason


class SamplingError(RuntimeError):
    """A request that no worker could answer; retrying the same request would fail again."""


@dataclass(frozen=True)
class SampleRequest:
    """K completions wanted from one prefix.

    ``seat`` is who speaks. With ``adapter="latest"`` the worker uses the newest version of the
    seat that it holds; a version's full name picks that one; ``None`` is the base model.
    ``seeds`` has one entry for each completion; a completion ends with the first of ``stop_ids``.
    Requests of one ``session`` go to one worker while it lives, for its prefix cache.
    """

    seat: str
    prompt_ids: tuple[int, ...]
    seeds: tuple[int, ...]
    max_tokens: int
    temperature: float
    top_p: float = 1.0
    top_k: int = -1
    stop_ids: tuple[int, ...] = ()
    adapter: str | None = "latest"
    session: str = ""


@dataclass(frozen=True)
class Completion:
    """Sampled ids (the end-of-turn id included when there is one) and their log-probs."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: FinishReason


@dataclass(frozen=True)
class SampleResult:
    """The completions of one request; all were written by the same adapter ``version``."""

    version: str | None
    completions: tuple[Completion, ...]
    cached_prompt_tokens: int = 0


class Sampler(Protocol):
    """Anything that can sample for a seat."""

    async def sample(self, request: SampleRequest) -> SampleResult:
        """Sample, or raise :class:`SamplingError`."""
        ...
