"""Holds a configuration against the model that it names, before any weights load."""

from pathlib import Path
from typing import TYPE_CHECKING

from rl.chat.format import ChatFormat, ChatFormatError
from rl.chat.template import assistant, system, user
from rl.config.errors import wrong
from rl.config.schema import Config
from rl.models.errors import ModelError
from rl.models.frozen_adapter import check_frozen_adapter
from rl.models.inspect import ModelFacts, model_key, read_model, read_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def check_model(config: Config, model: str, max_lora_rank: int) -> "PreTrainedTokenizerBase":
    """Check context, adapters and chat template; return the tokenizer.

    ``model`` is what :func:`rl.models.resolve.resolve_model` gave; ``max_lora_rank`` the largest
    rank that rollout workers are started for. Reads files only, in a second or two.

    Raises:
        ModelError: the model's files cannot be used.
        ConfigError: a key asks for what the model does not have.
    """
    shown = model_key(config.model)
    facts = read_model(model, shown)
    _check_context(config, facts)
    _check_targets(config, facts)
    if config.discovery.user_adapter:
        check_frozen_adapter(Path(config.discovery.user_adapter), facts, max_lora_rank)
    tokenizer = read_tokenizer(model, shown)
    _check_chat(config, tokenizer, shown)
    return tokenizer


def _check_context(config: Config, facts: ModelFacts) -> None:
    wanted, limit = config.model.context_tokens, facts.context_limit
    if limit is not None and wanted > limit:
        raise wrong("model.context_tokens", wanted, f"expected at most {limit}, the model's own")


def _check_targets(config: Config, facts: ModelFacts) -> None:
    """peft matches a target with the whole name of a layer, or with its end after a dot."""
    targets = config.lora.target_modules
    for target in targets:
        if not any(f".{name}".endswith(f".{target}") for name in facts.linear_layers):
            raise wrong(
                "lora.target_modules",
                targets,
                f"the model has no linear layer {target}; it has {', '.join(facts.layer_names())}",
            )


def _check_chat(config: Config, tokenizer: "PreTrainedTokenizerBase", shown: str) -> None:
    try:
        chat = ChatFormat.from_tokenizer(tokenizer, config.model.enable_thinking)
    except ChatFormatError as error:
        raise ModelError(f"{shown}: {' '.join(str(error).split())}") from None
    prompt = config.model.system_prompt
    try:
        chat.opening_ids(prompt, "Hello")
    except ChatFormatError as error:
        raise wrong("model.system_prompt", prompt, f"expected none: {error}") from None
    if config.discovery.user_turn == "vllm":
        _check_user_seat(chat)


def _check_user_seat(chat: ChatFormat) -> None:
    """The simulated user is prompted with a system message, and speaks as the assistant."""
    try:
        chat.messages_ids([system("Ask."), user("Begin."), assistant("Hello"), user("Yes?")], True)
    except ChatFormatError as error:
        raise wrong("discovery.user_turn", "vllm", f"expected scripted: {error}") from None
