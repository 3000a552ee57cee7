"""One on-policy discovery dialogue: K replies a turn, judged from one state, one committed."""

from collections.abc import Sequence
from dataclasses import replace

from rl.chat.format import ChatFormat
from rl.chat.view import SeatView
from rl.data.tasks import Task
from rl.discovery.kernel import TransitionResult
from rl.discovery.reward import turn_reward
from rl.discovery.rules import DialogueRules
from rl.discovery.session import JudgeClient, UserSession
from rl.discovery.tree import TreeState
from rl.episode.outcome import EpisodeEnd
from rl.episode.records import Candidate, Episode, EpisodeId, Group, as_failed
from rl.judging.interface import Abstention, Judgement, Verdict
from rl.sampling import Completion, Sampler, SampleRequest
from rl.seeding import derive_seed, derived_random

SEAT = "assistant"


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
        self._session = UserSession(task, str(episode), rules, chat, sampler)
        self._groups: list[Group] = []
        self._rewards: dict[int, float] = {}

    async def run(self) -> Episode:
        """Play the episode; raise what the sampler raises (then :meth:`stop` has the record)."""
        self._view.open(self._rules.system_prompt or None, self._task.opening)
        self._session.say("user", self._task.opening)
        for turn in range(self._rules.assistant_turns):
            _, prefix = self._view.generation_prefix()
            if not self._has_room(len(prefix)):
                return self._finish(EpisodeEnd.OPENING_TOO_LONG, self._no_room(len(prefix)))
            before = self._session.state
            committed = await self._assistant_turn(turn, prefix)
            if committed is None:
                return self._finish(EpisodeEnd.JUDGE_FAILED, self._why_unscored())
            if self._session.all_satisfied:
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
        verdicts = await self._judge.judge([self._session.question(c.text) for c in sampled])
        outcomes = [self._session.outcome(verdict) for verdict in verdicts]
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
        self._session.advance(outcome)
        self._session.say("assistant", chosen.text, chosen.version, chosen.finish)
        return verdict

    async def _user_turn(self, turn: int, before: TreeState, judgement: Judgement) -> bool:
        """Let the user speak; return whether it leaves room for a reply (else it is not said)."""
        said = await self._session.next_user_turn(turn, before, judgement)
        opening, suffix = self._chat.generation_prompt_ids()
        added = self._chat.user_turn_ids(said.text) + opening + suffix
        if not self._has_room(self._view.tokens_used() + len(added)):
            return False
        self._view.add_user(said.text)
        self._session.say("user", said.text, said.version, said.finish)
        return True

    def _has_room(self, prefix_tokens: int) -> bool:
        """Return whether a reply of full length fits after a prefix of so many tokens."""
        return prefix_tokens + self._rules.assistant.max_tokens <= self._rules.context_tokens

    def _sampled(self, completion: Completion, version: str) -> Candidate:
        span = self._view.add_candidate(completion.ids, completion.logprobs, version)
        self._session.count(f"finish_{completion.finish}")
        text = self._chat.decode_turn(completion.ids)
        return Candidate(span, text, len(completion.ids), completion.finish, version)

    def _scored(
        self, candidate: Candidate, verdict: Verdict, outcome: TransitionResult | None
    ) -> Candidate:
        if outcome is None:
            return replace(candidate, verdict=verdict)
        parts = turn_reward(
            self._task.tree,
            self._session.state,
            outcome.state,
            candidate.tokens,
            self._rules.reward,
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
        return Episode(
            id=self._episode,
            seat=SEAT,
            domain=self._task.domain,
            end=end,
            tokens=self._view.build(self._rewards),
            groups=tuple(self._groups),
            turns=tuple(self._session.turns),
            metrics=self._session.metrics(),
            counters=self._session.counters(),
            detail=detail,
        )

    def _seed(self, purpose: str, turn: int, candidate: int) -> int:
        return derive_seed(self._rules.run_seed, str(self._episode), purpose, turn, candidate)
