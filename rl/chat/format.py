"""Builds dialogues token by token, exactly as the model's chat template would render them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from jinja2.exceptions import TemplateError

from rl.chat.template import ChatFormatError, Message, TemplatePieces, derive_pieces
from rl.chat.thinking import thinking_length
from rl.chat.verify import verify_format

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["ChatFormat", "ChatFormatError"]

Ids = tuple[int, ...]

# Llama 3 templates print today's date unless given one, so that the same dialogue would differ from
# day to day and a run could not be repeated. This is the date they fall back to without a clock.
_DATE = "26 Jul 2024"


@dataclass(frozen=True)
class ChatFormat:
    """A chat template as token ids: what opens and closes each turn.

    The history of a dialogue is ``opening_ids``, then for each reply ``assistant_open_ids``, the
    reply's ids, ``close_assistant_ids(reply)`` and ``user_turn_ids``. A reply is sampled after
    ``assistant_open_ids + generation_suffix_ids``; where the suffix is not empty, or the reply
    holds thinking that the template strips (``kept_ids(reply) != reply``), the sampled path is no
    prefix of the history, and the dialogue forks (see :class:`rl.chat.view.SeatView`).

    Sampled ids are never decoded and encoded again (pitfall 11). Texts are stripped of surrounding
    space (some templates do it, so it is done for all) and of control tokens, so that no text can
    end a turn or open another.
    """

    tokenizer: "PreTrainedTokenizerBase" = field(repr=False, compare=False)
    pieces: TemplatePieces
    enable_thinking: bool = False

    @classmethod
    def from_tokenizer(
        cls, tokenizer: "PreTrainedTokenizerBase", enable_thinking: bool = False
    ) -> "ChatFormat":
        """Take the tokenizer's template apart, and check on samples that the parts make it whole.

        Raises:
            ChatFormatError: there is no template, or building piece by piece gives other ids than
                rendering at once.
        """
        try:
            if not tokenizer.chat_template:
                raise ChatFormatError("there is no chat template")
            pieces = derive_pieces(_renderer(tokenizer, enable_thinking))
            chat = cls(tokenizer, pieces, enable_thinking)
            verify_format(chat)
        except (ChatFormatError, TemplateError) as error:
            name = tokenizer.name_or_path or type(tokenizer).__name__
            raise ChatFormatError(f"chat template of {name}: {error}") from None
        return chat

    def opening_ids(self, system: str | None, user_text: str) -> Ids:
        """Return everything up to the end of the first user turn; without ``system`` (``None`` or
        empty) the template's own default stands, if it has one.

        Raises:
            ChatFormatError: a system message for a template that takes none.
        """
        text = self.clean(user_text) + self.pieces.user_close
        if not system:
            return self.encode(self.pieces.before_user + text)
        if self.pieces.before_system is None:
            raise ChatFormatError("this chat template takes no system message")
        before = self.pieces.before_system + self.clean(system) + self.pieces.after_system
        return self.encode(before + text)

    def user_turn_ids(self, text: str) -> Ids:
        """Return what a later user turn appends to the history."""
        return self.encode(self.pieces.user_open + self.clean(text) + self.pieces.user_close)

    @cached_property
    def assistant_open_ids(self) -> Ids:
        """What opens a reply and stays in the history."""
        return self.encode(self.pieces.assistant_open)

    @cached_property
    def generation_suffix_ids(self) -> Ids:
        """What follows ``assistant_open_ids`` only while a reply is generated; often empty."""
        return self.encode(self.pieces.generation_suffix)

    def generation_prompt_ids(self) -> tuple[Ids, Ids]:
        """Return ``(assistant_open_ids, generation_suffix_ids)``."""
        return self.assistant_open_ids, self.generation_suffix_ids

    @cached_property
    def end_of_turn_ids(self) -> Ids:
        """The ids that end a sampled turn: the template's own first, then the tokenizer's."""
        ids = [i for i in self._close_ids if i in self._control_tokens][:1]
        if not ids:
            raise ChatFormatError("a reply ends without a control token, so sampling cannot stop")
        eos = self.tokenizer.eos_token_id
        opens = self.assistant_open_ids + self.encode(self.pieces.user_open)
        if eos is not None and eos not in ids and eos not in opens:
            ids.append(eos)
        return tuple(ids)

    def close_assistant_ids(self, ids: Ids) -> Ids:
        """Return what follows the reply ``ids`` in the history.

        A reply that was cut at its length gets its end-of-turn token here (never sampled, so
        mask 0); one that ended by itself gets only what comes after that token.
        """
        end = self.end_of_turn_ids[0]
        if ids and ids[-1] == end:
            return self._close_ids[self._close_ids.index(end) + 1 :]
        return self._close_ids

    def kept_ids(self, ids: Ids) -> Ids:
        """Return the part of a sampled reply that stays in the history: all of it, or, where the
        template strips thinking, what follows the thinking.
        """
        return ids[self._thinking_length(ids) :] if self.pieces.strips_thinking else ids

    def decode_turn(self, ids: Ids) -> str:
        """Return a sampled turn's text as the other seats read it: no control tokens, no thinking.

        A turn that was cut inside its thinking says nothing: the text is empty.
        """
        return self._decode(ids[self._thinking_length(ids) :], skip_special_tokens=True).strip()

    def messages_ids(self, messages: Sequence[Message], add_generation_prompt: bool) -> Ids:
        """Return the template's own rendering of ``messages``, for seats that are not trained.

        Raises:
            ChatFormatError: the template refuses these roles in this order.
        """
        cleaned = [{**m, "content": self.clean(m["content"])} for m in messages]
        try:
            return self.encode(self.render(cleaned, add_generation_prompt))
        except TemplateError as error:
            raise ChatFormatError(f"the chat template refuses the messages: {error}") from None

    def render(self, messages: Sequence[Message], add_generation_prompt: bool) -> str:
        """Return the template's text for ``messages``, contents unchanged."""
        return _renderer(self.tokenizer, self.enable_thinking)(messages, add_generation_prompt)

    def encode(self, text: str) -> Ids:
        """Return the ids of ``text``, in which control tokens are written out."""
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def clean(self, text: str) -> str:
        """Return ``text`` without control tokens and surrounding space."""
        while (without := self._control_pattern.sub("", text)) != text:
            text = without  # again: taking one out may have joined the halves of another
        return text.strip()

    @cached_property
    def _close_ids(self) -> Ids:
        return self.encode(self.pieces.assistant_close)

    @cached_property
    def _control_tokens(self) -> dict[int, str]:
        """Every control token; the tokenizer's ``all_special_ids`` leaves most of them out."""
        added = self.tokenizer.added_tokens_decoder
        return {i: token.content for i, token in added.items() if token.special}

    @cached_property
    def _control_pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self._control_tokens.values(), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def _thinking_length(self, ids: Ids) -> int:
        body = len(ids) - (bool(ids) and ids[-1] in self.end_of_turn_ids)
        return thinking_length(ids[:body], self._decode, self.pieces.opens_thinking)

    def _decode(self, ids: Ids, skip_special_tokens: bool = False) -> str:
        text = self.tokenizer.decode(
            list(ids),
            skip_special_tokens=skip_special_tokens,
            clean_up_tokenization_spaces=False,
        )
        assert isinstance(text, str)
        return text


def _renderer(
    tokenizer: "PreTrainedTokenizerBase", enable_thinking: bool
) -> Callable[[Sequence[Message], bool], str]:
    def render(messages: Sequence[Message], add_generation_prompt: bool) -> str:
        text = tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            enable_thinking=enable_thinking,
            date_string=_DATE,
        )
        assert isinstance(text, str)
        return text

    return render
