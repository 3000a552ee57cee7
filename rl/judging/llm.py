"""A language model as judge: structured answers, bounded concurrency, and abstentions."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from rl.judging.interface import AbstainReason, Abstention, JudgeRequest, Verdict
from rl.judging.llm_prompt import judge_messages, judge_schema, read_judgement
from rl.llm.client import ChatClient, ChatError, ChatRequest, ask

ATTEMPTS = 2  # answers out of schema are asked for once more


class ClosingClient(ChatClient, Protocol):
    """A client whose connections belong to one event loop."""

    async def close(self) -> None:
        """Close the connections."""
        ...


class LlmJudge:
    """Judges each reply by one request to a language model, several at a time.

    A reply without an acceptable answer in time is abstained from. Greedy decoding, so a model
    that is deterministic judges deterministically. ``make_client`` is called once a batch, since a
    client serves one event loop.
    """

    def __init__(
        self,
        name: str,
        make_client: Callable[[], ClosingClient],
        deadline_s: float,
        concurrency: int,
        max_tokens: int,
    ) -> None:
        self.name = name
        self._make_client = make_client
        self._deadline_s = deadline_s
        self._concurrency = concurrency
        self._max_tokens = max_tokens

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Judge ``requests``, one verdict each, in order; called outside of any event loop."""
        return asyncio.run(self._judge(requests))

    async def _judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        client = self._make_client()
        slots = asyncio.Semaphore(self._concurrency)
        try:
            return list(
                await asyncio.gather(*(self._one(client, slots, request) for request in requests))
            )
        finally:
            await client.close()

    async def _one(
        self, client: ChatClient, slots: asyncio.Semaphore, request: JudgeRequest
    ) -> Verdict:
        if not request.reply.strip():
            return Abstention(self.name, AbstainReason.EMPTY_REPLY)
        chat = ChatRequest(judge_messages(request), judge_schema(request), self._max_tokens)
        async with slots:
            try:
                return await ask(
                    client,
                    chat,
                    lambda text: read_judgement(self.name, request, text),
                    ATTEMPTS,
                    self._deadline_s,
                )
            except ChatError as error:
                return Abstention(self.name, AbstainReason(error.reason.value), str(error))
