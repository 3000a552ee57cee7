"""Checks a chat format: dialogues built piece by piece equal the template's own rendering."""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from rl.chat.template import ChatFormatError, Message, assistant, system, user

if TYPE_CHECKING:
    from rl.chat.format import ChatFormat

_SYSTEM = "Be brief.\nAsk when something is unclear."
_USERS = (
    "Write a poem about rain.",
    "naïve café: 你好, 🙂?",
    "First line\n\n  second line\n- third",
)
_REPLIES = ("Which tone?", "Sí.\n\n1. one\n2. two", "```\ncode\n```")


def verify_format(chat: "ChatFormat") -> None:
    """Build sample dialogues of one to three user turns and compare ids with the rendering's.

    Raises:
        ChatFormatError: at the first difference, or when a reply's end cannot be told.
    """
    systems = (None,) if chat.pieces.before_system is None else (None, _SYSTEM)
    _ = chat.end_of_turn_ids  # raises when there is none
    for system_text, turns in product(systems, range(1, len(_USERS) + 1)):
        users, replies = _USERS[:turns], _REPLIES[: turns - 1]
        built = _build(chat, system_text, users, replies)
        rendered = chat.encode(chat.render(_messages(system_text, users, replies), True))
        if built != rendered:
            raise ChatFormatError(
                "building a dialogue piece by piece gives other ids than rendering it: "
                + _first_difference(built, rendered)
            )


def _build(
    chat: "ChatFormat", system_text: str | None, users: Sequence[str], replies: Sequence[str]
) -> tuple[int, ...]:
    ids = chat.opening_ids(system_text, users[0])
    for reply, text in zip(replies, users[1:], strict=True):
        ids += _reply_ids(chat, reply) + chat.user_turn_ids(text)
    return ids + chat.assistant_open_ids + chat.generation_suffix_ids


def _reply_ids(chat: "ChatFormat", reply: str) -> tuple[int, ...]:
    """Return the ids of a whole reply, after checking that its opening and closing are as told."""
    pieces = chat.pieces
    ids = chat.encode(pieces.assistant_open + reply + pieces.assistant_close)
    opening, closing = chat.assistant_open_ids, chat.close_assistant_ids(())
    if ids[: len(opening)] != opening or ids[-len(closing) :] != closing:
        raise ChatFormatError("a reply's text is tokenized together with what opens or closes it")
    return ids


def _messages(
    system_text: str | None, users: Sequence[str], replies: Sequence[str]
) -> list[Message]:
    messages = [system(system_text)] if system_text else []
    for index, text in enumerate(users):
        messages.append(user(text))
        messages += [assistant(reply) for reply in replies[index : index + 1]]
    return messages


def _first_difference(built: tuple[int, ...], rendered: tuple[int, ...]) -> str:
    pairs = zip(built, rendered, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(built), len(rendered)))
    return f"at token {at}, {built[at : at + 3]} and {rendered[at : at + 3]}"
