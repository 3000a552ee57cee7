"""The chat messages from which a model plays the user (specification §3).

Roles are flipped: the model's own turns ("assistant") are the person's, and the assistant's
replies come as "user" messages. What the turn must say stands last, in the first person and in
whole sentences, because a small model repeats best what it read last.
"""

from collections.abc import Sequence

from rl.discovery.phrasing import as_clause, as_topic
from rl.discovery.user_context import UserIntentContext, UserMode

_SYSTEM = (
    "You are the person who asked for help, not the assistant. You write short messages of one or "
    "two sentences, about your own wishes. You never write the text that you asked for."
)
_INVITATION = "What do you need?"
_MOST_ITEMS = 2  # of each kind: more does not fit into 40 words
_FLIPPED = {"assistant": "user", "user": "assistant"}


def user_prompt_messages(
    context: UserIntentContext, history: Sequence[tuple[str, str]]
) -> list[dict[str, str]]:
    """Return ``{"role", "content"}`` messages that ask a model for the user's next turn.

    ``history`` holds the dialogue's (role, text) pairs from the opening to the assistant's last
    reply. Raises ``ValueError`` unless it starts with the user and the two alternate.
    """
    _check(history)
    messages = [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": _INVITATION},
        *({"role": _FLIPPED[role], "content": text.strip()} for role, text in history),
    ]
    task = f"Answer in about 20 words, at most 40. Your answer must say: {_notes(context)}"
    messages[-1]["content"] += f"\n\n{task}"
    return messages


def _notes(context: UserIntentContext) -> str:
    """Return what the turn must say, as the person would note it down."""
    notes = [f"I like this: {as_clause(text)}." for text in context.achieved[:_MOST_ITEMS]]
    if context.option is not None:
        notes.append(f"The closest option is: {as_clause(context.option)}.")
    if context.mode is UserMode.CLEAR:
        notes += [f"I want this: {as_clause(text)}." for text in context.clear[:_MOST_ITEMS]]
    elif context.mode is UserMode.FUZZY:
        topic = as_topic(context.fuzzy[0])
        notes.append(f"I'm unsure about {topic}, I only have a vague feeling.")
    else:
        topic = as_topic(context.latent[0]) if context.latent else "it"
        notes.append(f"Something about {topic} feels off, but I can't say what.")
    return " ".join(notes)


def _check(history: Sequence[tuple[str, str]]) -> None:
    roles = [role for role, _ in history]
    wanted = ["user", "assistant"] * (len(roles) // 2)
    if not roles or roles != wanted:
        raise ValueError(
            "history must alternate user and assistant, from the opening to the assistant's last "
            f"reply; its roles are {', '.join(roles) or 'none'}"
        )
