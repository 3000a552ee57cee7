"""The rules of a discovery dialogue, taken once from the configuration for all episodes."""

from dataclasses import dataclass

from rl.config.schema import Config, SamplingConfig
from rl.discovery.kernel import Gating, KernelRules
from rl.discovery.progress import Focus
from rl.discovery.reward import DiscoveryReward, RewardRules


@dataclass(frozen=True)
class DialogueRules:
    """Everything that shapes an episode apart from its task and the models that play its seats.

    ``user_adapter`` names the frozen adapter version of the user seat; ``None`` is the base.
    """

    run_seed: int
    system_prompt: str
    context_tokens: int
    assistant_turns: int
    group_size: int
    commit_best: bool
    kernel: KernelRules
    reward: RewardRules
    assistant: SamplingConfig
    user: SamplingConfig
    user_scripted: bool
    user_max_words: int
    user_leak_retries: int
    user_adapter: str | None = None

    @classmethod
    def from_config(cls, config: Config, user_adapter: str | None = None) -> "DialogueRules":
        """Take the rules from a validated configuration."""
        discovery = config.discovery
        return cls(
            run_seed=config.run.seed,
            system_prompt=config.model.system_prompt,
            context_tokens=config.model.context_tokens,
            assistant_turns=discovery.assistant_turns,
            group_size=config.grpo.group_size,
            commit_best=discovery.commit == "best",
            kernel=KernelRules(
                Gating(discovery.gating),
                Focus(discovery.focus),
                discovery.tangential_probability,
            ),
            reward=RewardRules(
                DiscoveryReward(discovery.reward),
                discovery.length_penalty,
                discovery.length_free_tokens,
            ),
            assistant=config.assistant,
            user=config.user,
            user_scripted=discovery.user_turn == "scripted",
            user_max_words=discovery.user_max_words,
            user_leak_retries=discovery.user_leak_retries,
            user_adapter=user_adapter,
        )
