"""One on-policy discovery dialogue: K replies a turn, judged from one state, one committed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from rl.chat.format import ChatFormat
from rl.chat.view import SeatView
from rl.data.tasks import Task
from rl.discovery.kernel import TransitionResult, draw_thresholds, judgeable, transition
from rl.discovery.metrics import discover, satisfy
from rl.discovery.progress import all_satisfied
from rl.discovery.reward import turn_reward
from rl.discovery.rules import DialogueRules
from rl.discovery.tree import TreeState, initial_state
from rl.discovery.user_seat import UserSeat
from rl.discovery.user_turn import closest_option, user_intent_context
from rl.episode.outcome import EpisodeEnd, FinishReason
from rl.episode.records import Candidate, Episode, EpisodeId, Group, Turn, as_failed
from rl.judging.interface import Abstention, Judgement, JudgeRequest, NodeQuestion, Verdict
from rl.sampling import Completion, Sampler, SampleRequest
from rl.seeding import derive_seed, derived_random

SEAT = "assistant"


class JudgeClient(Protocol):
    """Where a dialogue sends replies to be judged."""

    async def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict for each request, in order; failures are abstentions."""
        ...


class DiscoveryDialogue:
    """Plays one episode from its opening to its end.

    The candidates of a turn share state, thresholds and history, so their rewards differ by what
    they say. A candidate whose judge abstains has no reward and is not committed. The last turn
    is always the assistant's: a user turn that leaves no room for a reply is not said.

    What was sampled is on record before anything else is waited for, so that an episode that is
    stopped or fails loses none of it.
    """

    def __init__(
        self,
        task: Task,
        episode: EpisodeId,
        rules: DialogueRules,
        chat: ChatFormat,
        sampler: Sampler,
        judge: JudgeClient,
    ) -> None:
        self._task = task
        self._episode = episode
        self._rules = rules
        self._chat = chat
        self._sampler = sampler
        self._judge = judge
        self._view = SeatView(chat)
        self._user = UserSeat(rules, chat, sampler, str(episode))
        self._thresholds = draw_thresholds(
            task.tree, derive_seed(rules.run_seed, str(episode), "kernel")
        )
        self._state = initial_state(task.tree, task.known)
        self._history: list[tuple[str, str]] = []
        self._turns: list[Turn] = []
        self._groups: list[Group] = []
        self._rewards: dict[int, float] = {}
        self._counters: Counter[str] = Counter()

    async def run(self) -> Episode:
        """Play the episode; raise what the sampler raises (then :meth:`stop` has the record)."""
        self._view.open(self._rules.system_prompt or None, self._task.opening)
        self._say("user", self._task.opening)
        for turn in range(self._rules.assistant_turns):
            _, prefix = self._view.generation_prefix()
            if not self._has_room(len(prefix)):
                return self._finish(EpisodeEnd.OPENING_TOO_LONG, self._no_room(len(prefix)))
            before = self._state
            committed = await self._assistant_turn(turn, prefix)
            if committed is None:
                return self._finish(EpisodeEnd.JUDGE_FAILED, self._why_unscored())
            if all_satisfied(self._task.tree, self._state):
                return self._finish(EpisodeEnd.ALL_SATISFIED)
            last = turn + 1 == self._rules.assistant_turns
            if not last and not await self._user_turn(turn, before, committed):
                return self._finish(EpisodeEnd.CONTEXT_FULL)
        return self._finish(EpisodeEnd.TURN_LIMIT)

    def stop(self, end: EpisodeEnd, detail: str) -> Episode:
        """Return the episode as a failure, with all that was played until now.

        A group whose verdicts did not come in time has candidates without reward and verdict.
        Raises ``ValueError`` when ``end`` is no failure.
        """
        return as_failed(self._finish(end), end, detail)

    async def _assistant_turn(self, turn: int, prefix: tuple[int, ...]) -> Judgement | None:
        """Sample, judge and commit; return the committed reply's judgement, if any."""
        sampling = self._rules.assistant
        seeds = tuple(self._seed("candidate", turn, k) for k in range(self._rules.group_size))
        result = await self._sampler.sample(
            SampleRequest(
                seat=SEAT,
                prompt_ids=prefix,
                seeds=seeds,
                max_tokens=sampling.max_tokens,
                temperature=sampling.temperature,
                stop_ids=tuple(self._chat.end_of_turn_ids),
                session=str(self._episode),
            )
        )
        if result.version is None:
            raise ValueError("the trained seat was sampled without an adapter version")
        sampled = tuple(self._sampled(c, result.version) for c in result.completions)
        group = Group(f"{self._episode}/{turn}", turn, sampled, None)
        self._groups.append(group)
        verdicts = await self._judge.judge([self._question(c.text) for c in sampled])
        outcomes = [self._outcome(verdict) for verdict in verdicts]
        candidates = tuple(
            self._scored(candidate, verdict, outcome)
            for candidate, verdict, outcome in zip(sampled, verdicts, outcomes, strict=True)
        )
        index = self._choose(turn, candidates)
        self._groups[-1] = replace(group, candidates=candidates, committed=index)
        if index is None:
            return None
        chosen, outcome, verdict = candidates[index], outcomes[index], verdicts[index]
        assert outcome is not None
        assert isinstance(verdict, Judgement)
        self._view.commit(chosen.span)
        self._state = outcome.state
        self._counters["judgements_ignored"] += len(outcome.ignored)
        self._say("assistant", chosen.text, chosen.version, chosen.finish)
        return verdict

    async def _user_turn(self, turn: int, before: TreeState, judgement: Judgement) -> bool:
        """Let the user speak; return whether it leaves room for a reply (else it is not said)."""
        context = user_intent_context(
            self._task.tree,
            self._state,
            self._task.opening,
            self._rules.kernel.focus,
            before,
            closest_option(judgement),
        )
        said = await self._user.speak(turn, context, self._history, self._task.tree, self._state)
        opening, suffix = self._chat.generation_prompt_ids()
        added = self._chat.user_turn_ids(said.text) + opening + suffix
        if not self._has_room(self._view.tokens_used() + len(added)):
            return False
        self._view.add_user(said.text)
        self._say("user", said.text, said.version, said.finish)
        return True

    def _has_room(self, prefix_tokens: int) -> bool:
        """Return whether a reply of full length fits after a prefix of so many tokens."""
        return prefix_tokens + self._rules.assistant.max_tokens <= self._rules.context_tokens

    def _question(self, reply: str) -> JudgeRequest:
        nodes = self._task.tree.nodes
        asked = judgeable(self._task.tree, self._state, self._rules.kernel)
        return JudgeRequest(
            history=tuple(self._history),
            reply=reply,
            nodes=tuple(
                NodeQuestion(
                    n, nodes[n].text, nodes[n].dimension, nodes[n].cues, nodes[n].alternatives
                )
                for n in asked
            ),
        )

    def _outcome(self, verdict: Verdict) -> TransitionResult | None:
        if isinstance(verdict, Abstention):
            self._counters[f"judge_abstained_{verdict.reason}"] += 1
            return None
        return transition(
            self._task.tree, self._state, verdict, self._thresholds, self._rules.kernel
        )

    def _sampled(self, completion: Completion, version: str) -> Candidate:
        span = self._view.add_candidate(completion.ids, completion.logprobs, version)
        self._counters[f"finish_{completion.finish}"] += 1
        text = self._chat.decode_turn(completion.ids)
        return Candidate(span, text, len(completion.ids), completion.finish, version)

    def _scored(
        self, candidate: Candidate, verdict: Verdict, outcome: TransitionResult | None
    ) -> Candidate:
        if outcome is None:
            return replace(candidate, verdict=verdict)
        parts = turn_reward(
            self._task.tree, self._state, outcome.state, candidate.tokens, self._rules.reward
        )
        self._rewards[candidate.span] = parts.total
        return replace(
            candidate,
            verdict=verdict,
            reward=parts.total,
            reward_parts={"discovery": parts.discovery, "length_penalty": parts.length_penalty},
        )

    def _choose(self, turn: int, candidates: Sequence[Candidate]) -> int | None:
        """Pick the candidate to go on with: the best, or a random one; ``None`` without any."""
        usable = [index for index, candidate in enumerate(candidates) if candidate.usable]
        if not usable:
            return None
        if self._rules.commit_best:
            return max(usable, key=lambda index: (candidates[index].reward or 0.0, -index))
        return derived_random(self._rules.run_seed, str(self._episode), "commit", turn).choice(
            usable
        )

    def _say(
        self, role: str, text: str, version: str | None = None, finish: FinishReason | None = None
    ) -> None:
        self._turns.append(Turn(len(self._turns), role, text, self._state, version, finish))
        self._history.append((role, text))

    def _no_room(self, prefix_tokens: int) -> str:
        return (
            f"the opening of {prefix_tokens} tokens and assistant.max_tokens="
            f"{self._rules.assistant.max_tokens} do not fit into model.context_tokens="
            f"{self._rules.context_tokens}"
        )

    def _why_unscored(self) -> str:
        """Return the reasons why no candidate of the last group could be scored."""
        verdicts = [candidate.verdict for candidate in self._groups[-1].candidates]
        reasons = [f"{v.reason}: {v.detail}" for v in verdicts if isinstance(v, Abstention)]
        return "; ".join(dict.fromkeys(reasons)) or "no candidate has tokens"

    def _finish(self, end: EpisodeEnd, detail: str = "") -> Episode:
        tree = self._task.tree
        return Episode(
            id=self._episode,
            seat=SEAT,
            domain=self._task.domain,
            end=end,
            tokens=self._view.build(self._rewards),
            groups=tuple(self._groups),
            turns=tuple(self._turns),
            metrics={
                "discover": discover(tree, self._state),
                "satisfy": satisfy(tree, self._state),
                "assistant_turns": float(sum(turn.role == "assistant" for turn in self._turns)),
            },
            counters=dict(self._counters + self._user.counters),
            detail=detail,
        )

    def _seed(self, purpose: str, turn: int, candidate: int) -> int:
        return derive_seed(self._rules.run_seed, str(self._episode), purpose, turn, candidate)
