"""A language model behind an OpenAI-compatible endpoint: vLLM's own server, or any other."""

import os
from typing import Any

from rl.llm.client import ChatError, ChatFailure, ChatRequest


class EndpointClient:
    """Asks one model of one endpoint; uses the ``openai`` package, which retries and backs off.

    Refusals that may pass (429, 5xx, a broken connection) are tried ``retries`` times more. One
    client serves one event loop. The key is read from the environment variable that ``key_name``
    names; servers without keys get a placeholder.
    """

    def __init__(
        self,
        endpoint: str,
        model: str,
        key_name: str,
        request_deadline_s: float,
        retries: int,
    ) -> None:
        import openai

        self._client = openai.AsyncOpenAI(
            base_url=endpoint,
            api_key=os.environ.get(key_name) or "none",
            timeout=request_deadline_s,
            max_retries=retries,
        )
        self.name = model or endpoint
        self._endpoint = endpoint
        self._model = model

    async def complete(self, request: ChatRequest) -> str:
        """Return the answer's text; the schema is enforced where the server can.

        Raises:
            ChatError: no answer in time, or the server refused or answered something else.
        """
        import openai

        try:
            model = self._model or await self._first_model()
            response = await self._client.chat.completions.create(**_arguments(request, model))
            return _text(response)
        except openai.APITimeoutError:
            raise ChatError(ChatFailure.DEADLINE, f"{self._endpoint}: no answer in time") from None
        except openai.OpenAIError as error:
            detail = f"{self._endpoint}: {type(error).__name__}: {error}"
            raise ChatError(ChatFailure.BACKEND_ERROR, detail) from None
        except (
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
        ) as error:  # the body is not the API's
            detail = f"{self._endpoint}: an answer that is none: {error}"
            raise ChatError(ChatFailure.BACKEND_ERROR, detail) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _first_model(self) -> str:
        listed = await self._client.models.list()
        if not listed.data:
            raise ChatError(ChatFailure.BACKEND_ERROR, f"{self._endpoint}: serves no model")
        self._model = str(listed.data[0].id)
        return self._model


def _arguments(request: ChatRequest, model: str) -> dict[str, Any]:
    return {
        "model": model,
        "messages": [{"role": role, "content": text} for role, text in request.messages],
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": request.schema, "strict": True},
        },
    }


def _text(response: Any) -> str:
    """Return the first choice's text, with the thinking that some models put before it cut off."""
    text = response.choices[0].message.content or ""
    # Half a surrogate pair (an emoji cut at the length) is no text; it becomes a question mark.
    whole = str(text).encode("utf-8", "replace").decode()
    return whole.rpartition("</think>")[2].strip()
