"""The user's side of one dialogue: tree state, history, what is asked of the judge, user turns.

Who plays the assistant, and how its replies are kept, is the business of the modules that use it:
:mod:`rl.discovery.dialogue` trains a policy on its own replies, :mod:`rl.discovery.contest` lets
several assistants answer and goes on with the best.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from rl.chat.format import ChatFormat
from rl.data.tasks import Task
from rl.discovery.kernel import TransitionResult, draw_thresholds, judgeable, transition
from rl.discovery.metrics import discover, satisfy
from rl.discovery.progress import all_satisfied
from rl.discovery.rules import DialogueRules
from rl.discovery.tree import TreeState, initial_state
from rl.discovery.user_seat import SpokenTurn, UserSeat
from rl.discovery.user_turn import closest_option, user_intent_context
from rl.episode.outcome import FinishReason
from rl.episode.records import Turn
from rl.judging.interface import Abstention, Judgement, JudgeRequest, Verdict
from rl.judging.labelled import node_question
from rl.sampling import Sampler
from rl.seeding import derive_seed


class JudgeClient(Protocol):
    """Where a dialogue sends replies to be judged."""

    async def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict for each request, in order; failures are abstentions."""
        ...


class UserSession:
    """One dialogue as the simulated user lives it.

    Its thresholds are drawn once, from the run's seed and ``name``, so that all candidates of a
    turn and all assistants that play under one name meet the same user.
    """

    def __init__(
        self, task: Task, name: str, rules: DialogueRules, chat: ChatFormat, sampler: Sampler
    ) -> None:
        self._task = task
        self._rules = rules
        self._user = UserSeat(rules, chat, sampler, name)
        self._thresholds = draw_thresholds(task.tree, derive_seed(rules.run_seed, name, "kernel"))
        self._counters: Counter[str] = Counter()
        self.state: TreeState = initial_state(task.tree, task.known)
        self.history: list[tuple[str, str]] = []
        self.turns: list[Turn] = []

    @property
    def all_satisfied(self) -> bool:
        """Whether the user has got everything."""
        return all_satisfied(self._task.tree, self.state)

    def question(self, reply: str) -> JudgeRequest:
        """Return what the judge is asked about ``reply`` in the present state."""
        asked = judgeable(self._task.tree, self.state, self._rules.kernel)
        nodes = self._task.tree.nodes
        return JudgeRequest(
            history=tuple(self.history),
            reply=reply,
            nodes=tuple(node_question(nodes[node]) for node in asked),
        )

    def outcome(self, verdict: Verdict) -> TransitionResult | None:
        """Return where ``verdict`` would lead; ``None``, counted, for an abstention."""
        if isinstance(verdict, Abstention):
            self._counters[f"judge_abstained_{verdict.reason}"] += 1
            return None
        return transition(
            self._task.tree, self.state, verdict, self._thresholds, self._rules.kernel
        )

    def advance(self, outcome: TransitionResult) -> None:
        """Take over a committed reply's outcome."""
        self.state = outcome.state
        self._counters["judgements_ignored"] += len(outcome.ignored)

    async def next_user_turn(
        self, turn: int, before: TreeState, judgement: Judgement
    ) -> SpokenTurn:
        """Return what the user says to the committed reply; nothing is recorded yet.

        Raises what the sampler raises.
        """
        context = user_intent_context(
            self._task.tree,
            self.state,
            self._task.opening,
            self._rules.kernel.focus,
            before,
            closest_option(judgement),
        )
        return await self._user.speak(turn, context, self.history, self._task.tree, self.state)

    def say(
        self, role: str, text: str, version: str | None = None, finish: FinishReason | None = None
    ) -> None:
        """Record a turn that was said."""
        self.turns.append(Turn(len(self.turns), role, text, self.state, version, finish))
        self.history.append((role, text))

    def count(self, name: str) -> None:
        """Count something that happened."""
        self._counters[name] += 1

    def metrics(self) -> dict[str, float]:
        """Return Discover, Satisfy and the number of assistant turns so far."""
        return {
            "discover": discover(self._task.tree, self.state),
            "satisfy": satisfy(self._task.tree, self.state),
            "assistant_turns": float(sum(turn.role == "assistant" for turn in self.turns)),
        }

    def counters(self) -> Mapping[str, int]:
        """Return what was counted, the user seat's repairs included."""
        return dict(self._counters + self._user.counters)
