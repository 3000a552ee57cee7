"""What a language model is asked and how asking it can fail; who answers is another module."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol, TypeVar

Answer = TypeVar("Answer")


class ChatFailure(StrEnum):
    """Why there is no answer."""

    DEADLINE = "deadline"
    OUT_OF_SCHEMA = "out_of_schema"
    BACKEND_ERROR = "backend_error"


class ChatError(RuntimeError):
    """A request without an answer, with its reason; the message is one line."""

    def __init__(self, reason: ChatFailure, detail: str) -> None:
        super().__init__(" ".join(detail.split()))
        self.reason = reason


class OutOfSchemaError(ValueError):
    """An answer that breaks what was asked for; the message says how, and goes to the model."""


@dataclass(frozen=True)
class ChatRequest:
    """Messages as (role, text), and the JSON schema that the answer must follow."""

    messages: tuple[tuple[str, str], ...]
    schema: Mapping[str, Any]
    max_tokens: int
    temperature: float = 0.0
    seed: int = 0


class ChatClient(Protocol):
    """Anything that answers a chat request with text."""

    name: str

    async def complete(self, request: ChatRequest) -> str:
        """Return the answer's text, or raise :class:`ChatError`."""
        ...


async def ask(
    client: ChatClient,
    request: ChatRequest,
    read: Callable[[str], Answer],
    attempts: int,
    deadline_s: float,
) -> Answer:
    """Ask until ``read`` accepts an answer, at most ``attempts`` times within one deadline.

    An answer that ``read`` refuses is shown to the model with the reason, and asked for again
    under another seed.

    Raises:
        ChatError: no acceptable answer; failures of the client itself are not asked again here.
    """
    failure = ""
    try:
        async with asyncio.timeout(deadline_s):
            for attempt in range(attempts):
                text = await client.complete(replace(request, seed=request.seed + attempt))
                try:
                    return read(text)
                except OutOfSchemaError as error:
                    failure = str(error)
                    request = _with_complaint(request, text, failure)
    except TimeoutError:
        detail = f"no answer within {deadline_s:g} s"
        raise ChatError(ChatFailure.DEADLINE, f"{client.name}: {detail}") from None
    raise ChatError(
        ChatFailure.OUT_OF_SCHEMA, f"{client.name}: after {attempts} attempts: {failure}"
    )


def _with_complaint(request: ChatRequest, answer: str, failure: str) -> ChatRequest:
    complaint = f"That answer cannot be used: {failure}. Answer again, in full, without that fault."
    more = (("assistant", answer or "(nothing)"), ("user", complaint))
    return replace(request, messages=request.messages[:2] + more)
