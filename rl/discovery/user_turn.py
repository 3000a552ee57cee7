"""The user turn in one place: context, prompt, script, clean-up and leak check.

A user turn is made in these steps: :func:`user_intent_context` from the state; then either
:func:`scripted_turn`, or :func:`user_prompt_messages` for a model whose answer goes through
:func:`clean_user_text` and :func:`leaks`; an empty or leaking answer is asked for again, and then
replaced by the scripted turn. The opening turn is the task's opening as it stands.
"""

from rl.discovery.scripted_user import scripted_turn
from rl.discovery.secrecy import leaks
from rl.discovery.user_context import (
    UserIntentContext,
    UserMode,
    closest_option,
    user_intent_context,
)
from rl.discovery.user_prompt import user_prompt_messages
from rl.discovery.user_text import clean_user_text

__all__ = [
    "UserIntentContext",
    "UserMode",
    "clean_user_text",
    "closest_option",
    "leaks",
    "scripted_turn",
    "user_intent_context",
    "user_prompt_messages",
]
