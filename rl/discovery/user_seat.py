"""The user's seat: asks a model for the next turn, checks it, falls back to the script."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rl.chat.format import ChatFormat
from rl.discovery.rules import DialogueRules
from rl.discovery.tree import IntentTree, TreeState
from rl.discovery.user_turn import (
    UserIntentContext,
    clean_user_text,
    leaks,
    scripted_turn,
    user_prompt_messages,
)
from rl.episode.outcome import FinishReason
from rl.sampling import Sampler, SampleRequest
from rl.seeding import derive_seed


@dataclass(frozen=True)
class SpokenTurn:
    """What the user says, and who wrote it: ``finish`` is ``None`` for the script."""

    text: str
    version: str | None = None
    finish: FinishReason | None = None


class UserSeat:
    """Speaks for the user of one episode; ``counters`` says how often it had to repair."""

    def __init__(
        self, rules: DialogueRules, chat: ChatFormat, sampler: Sampler, episode: str
    ) -> None:
        self._rules = rules
        self._chat = chat
        self._sampler = sampler
        self._episode = episode
        self.counters: Counter[str] = Counter()

    async def speak(
        self,
        turn: int,
        context: UserIntentContext,
        history: Sequence[tuple[str, str]],
        tree: IntentTree,
        state: TreeState,
    ) -> SpokenTurn:
        """Return the user's turn; a generated one that leaks or is empty is tried again, then
        replaced by the scripted phrasing. Raises what the sampler raises.
        """
        if not self._rules.user_scripted:
            messages = user_prompt_messages(context, history)
            prompt = self._chat.messages_ids(messages, add_generation_prompt=True)
            if len(prompt) + self._rules.user.max_tokens > self._rules.context_tokens:
                self.counters["user_prompt_too_long"] += 1
            else:
                for attempt in range(1 + self._rules.user_leak_retries):
                    spoken = await self._generate(prompt, turn, attempt)
                    if self._accept(spoken.text, tree, state, context):
                        return spoken
            self.counters["user_scripted_instead"] += 1
        return SpokenTurn(scripted_turn(context, self._seed("scripted", turn, 0)))

    async def _generate(self, prompt: tuple[int, ...], turn: int, attempt: int) -> SpokenTurn:
        sampling = self._rules.user
        result = await self._sampler.sample(
            SampleRequest(
                seat="user",
                prompt_ids=prompt,
                seeds=(self._seed("user", turn, attempt),),
                max_tokens=sampling.max_tokens,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                stop_ids=tuple(self._chat.end_of_turn_ids),
                adapter=self._rules.user_adapter,
                session=self._episode,
            )
        )
        answer = result.completions[0]
        self.counters["user_turns_generated"] += 1
        self.counters[f"user_finish_{answer.finish}"] += 1
        self.counters["user_tokens"] += len(answer.ids)
        text = clean_user_text(self._chat.decode_turn(answer.ids), self._rules.user_max_words)
        return SpokenTurn(text, result.version, answer.finish)

    def _accept(
        self, text: str, tree: IntentTree, state: TreeState, context: UserIntentContext
    ) -> bool:
        if not text:
            self.counters["user_turns_empty"] += 1
            return False
        if leaks(text, tree, state, context.speakable):
            self.counters["user_leaks"] += 1
            return False
        return True

    def _seed(self, purpose: str, turn: int, attempt: int) -> int:
        return derive_seed(self._rules.run_seed, self._episode, purpose, turn, attempt)
