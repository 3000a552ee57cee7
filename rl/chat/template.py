"""Takes a chat template apart: renders it with marker contents and reads the text between them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jinja2.exceptions import TemplateError

Message = Mapping[str, str]  # {"role": "system" | "user" | "assistant", "content": text}
Render = Callable[[Sequence[Message], bool], str]  # (messages, add_generation_prompt) → text

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"

# Contents that no template holds or changes.
_SYSTEM, _FIRST, _REPLY, _NEXT, _THOUGHT = (f"marker-{word}-0x5f" for word in "szrnt")


class ChatFormatError(ValueError):
    """A chat template that cannot be built piece by piece; the message names the tokenizer."""


@dataclass(frozen=True)
class TemplatePieces:
    """The fixed text of a chat template, around and between the contents of messages.

    A dialogue is, with ``system`` or without::

        before_system SYSTEM after_system USER user_close   |   before_user USER user_close
        (assistant_open REPLY assistant_close user_open USER user_close)*
        assistant_open generation_suffix …

    ``generation_suffix`` is there only while a reply is generated and leaves the history (Qwen 3's
    empty thinking block). ``before_system`` is ``None`` when the template takes no system message.
    """

    before_user: str
    before_system: str | None
    after_system: str
    user_open: str
    user_close: str
    assistant_open: str
    assistant_close: str
    generation_suffix: str
    strips_thinking: bool  # a past reply's thinking leaves the history

    @property
    def opens_thinking(self) -> bool:
        """Whether a generated reply begins inside a thinking block that the prompt opened."""
        prompt = self.assistant_open + self.generation_suffix
        return prompt.rfind(THINK_OPEN) > prompt.rfind(THINK_CLOSE)


def derive_pieces(render: Render) -> TemplatePieces:
    """Return the pieces of the template behind ``render``.

    Raises:
        ChatFormatError: the template's text does not fall into these pieces.
    """
    first = render([user(_FIRST)], False)
    before_user, user_close = _split(first, _FIRST)
    dialogue = render([user(_FIRST), assistant(_REPLY), user(_NEXT)], False)
    _, to_reply, to_next, _ = _split(dialogue, _FIRST, _REPLY, _NEXT)
    assistant_open = _after(to_reply, user_close, "the text before a reply", "a user turn's end")
    closed = render([user(_FIRST), assistant(_REPLY)], False)
    assistant_close = _split(closed, _REPLY)[1]
    user_open = _after(to_next, assistant_close, "the text after a reply", "a reply's end")
    prompt = _after(render([user(_FIRST)], True), first, "a generation prompt", "the dialogue")
    suffix = _after(prompt, assistant_open, "the generation prompt", "a past reply's opening")
    before_system, after_system = _around_system(render, user_close)
    thought = f"{THINK_OPEN}\n{_THOUGHT}\n{THINK_CLOSE}\n\n{_REPLY}"
    with_thought = render([user(_FIRST), assistant(thought), user(_NEXT)], False)
    return TemplatePieces(
        before_user=before_user,
        before_system=before_system,
        after_system=after_system,
        user_open=user_open,
        user_close=user_close,
        assistant_open=assistant_open,
        assistant_close=assistant_close,
        generation_suffix=suffix,
        strips_thinking=_THOUGHT not in with_thought,
    )


def system(content: str) -> Message:
    """Return a system message."""
    return {"role": "system", "content": content}


def user(content: str) -> Message:
    """Return a user message."""
    return {"role": "user", "content": content}


def assistant(content: str) -> Message:
    """Return an assistant message."""
    return {"role": "assistant", "content": content}


def _around_system(render: Render, user_close: str) -> tuple[str | None, str]:
    """Return the text before and after a system message's content; ``None`` when it takes none."""
    try:
        text = render([system(_SYSTEM), user(_FIRST)], False)
    except TemplateError:
        return None, ""
    before, between, end = _split(text, _SYSTEM, _FIRST)
    _after(end, user_close, "the end of a first turn with a system message", "the end without one")
    return before, between


def _split(text: str, *markers: str) -> list[str]:
    """Return the parts of ``text`` around ``markers``, each of which must stand in it once."""
    parts = []
    for marker in markers:
        if text.count(marker) != 1:
            raise ChatFormatError("a message's content is left out, repeated or changed")
        before, _, text = text.partition(marker)
        parts.append(before)
    return [*parts, text]


def _after(text: str, start: str, what: str, expected: str) -> str:
    if not text.startswith(start):
        raise ChatFormatError(f"{what} ({text!r}) does not begin with {expected} ({start!r})")
    return text[len(start) :]
