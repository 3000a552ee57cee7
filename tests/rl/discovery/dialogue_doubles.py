"""Doubles of the two things a dialogue talks to, a sampler and a judge, and a small task."""

import asyncio
import random
from functools import cache

from rl.chat.format import ChatFormat
from rl.config.schema import SamplingConfig
from rl.data.tasks import Task
from rl.discovery.dialogue import DiscoveryDialogue
from rl.discovery.kernel import KernelRules
from rl.discovery.reward import RewardRules
from rl.discovery.rules import DialogueRules
from rl.discovery.tree import IntentNode, IntentTree
from rl.episode.outcome import FinishReason
from rl.episode.records import EpisodeId
from rl.judging.interface import (
    AbstainReason,
    Abstention,
    Engagement,
    Judgement,
    NodeJudgement,
    ReplyKind,
)
from rl.sampling import Completion, SampleResult

VERSION = "assistant@0.3"


@cache
def chat_format(folder):
    from transformers import AutoTokenizer

    return ChatFormat.from_tokenizer(AutoTokenizer.from_pretrained(folder))


def node(id_, name, *children):
    """A node whose every text is a word of its own, found wherever it leaks."""
    return IntentNode(
        id=id_,
        text=f"text{name}.",
        dimension=f"dimension{name}",
        cues=(f"cue{name}",),
        alternatives=(f"other{name}",),
        children=children,
    )


TREE = IntentTree(
    (node("1", "alder", node("1.1", "birch", node("1.1.1", "cedar"))), node("2", "dogwood"))
)
TASK = Task("poem", "creative_writing", "poem", "…", "Write me a poem.", ("1",), TREE)
EPISODE = EpisodeId(0, "poem", 7)


def rules(**changes):
    defaults = {
        "run_seed": 5,
        "system_prompt": "",
        "context_tokens": 1024,
        "assistant_turns": 3,
        "group_size": 3,
        "commit_best": True,
        "kernel": KernelRules(),
        "reward": RewardRules(),
        "assistant": SamplingConfig(max_tokens=16),
        "user": SamplingConfig(max_tokens=24),
        "user_scripted": True,
        "user_max_words": 40,
        "user_leak_retries": 1,
    }
    return DialogueRules(**(defaults | changes))


class ScriptedSampler:
    """Answers assistant requests with given groups of replies, user requests with given turns.

    A reply is text (ended by the end-of-turn token), or ids as they are (cut at the length).
    """

    def __init__(self, chat, groups, user_turns=(), version=VERSION, user_version=None):
        self.chat, self.requests = chat, []
        self.groups, self.user_turns = list(groups), list(user_turns)
        self.versions = {"assistant": version, "user": user_version}

    async def sample(self, request):
        self.requests.append(request)
        replies = [self.user_turns.pop(0)] if request.seat == "user" else self.groups.pop(0)
        completions = tuple(self.completion(reply) for reply in replies)
        return SampleResult(self.versions[request.seat], completions)

    def completion(self, reply):
        if isinstance(reply, str):
            ids = self.chat.encode(reply) + self.chat.end_of_turn_ids[:1]
        else:
            ids = tuple(reply)
        cut = not ids or ids[-1] not in self.chat.end_of_turn_ids
        logprobs = tuple(-0.25 * (place + 1) for place in range(len(ids)))
        return Completion(ids, logprobs, FinishReason.LENGTH if cut else FinishReason.STOP)

    def of(self, seat):
        return [request for request in self.requests if request.seat == seat]


class SeededSampler(ScriptedSampler):
    """Picks each reply from ``texts`` by its seed alone, after a pause that depends on chance."""

    def __init__(self, chat, texts, pauses=None):
        super().__init__(chat, [])
        self.texts, self.pauses = texts, pauses or random.Random(0)

    async def sample(self, request):
        self.requests.append(request)
        await asyncio.sleep(0.002 * self.pauses.random())
        completions = [self.completion(self.texts[s % len(self.texts)]) for s in request.seeds]
        return SampleResult(self.versions[request.seat], tuple(completions))


class WordJudge:
    """Reads its verdict off the reply: ``ask 1.1``, ``draft 1.1 2``, ``near 2``, ``offer A B``.

    ``abstain`` makes it abstain; other words engage nothing.
    """

    def __init__(self):
        self.batches = []

    async def judge(self, requests):
        self.batches.append(tuple(requests))
        return [self.verdict(request) for request in requests]

    def verdict(self, request):
        verb, *words = request.reply.split() or [""]
        if verb == "abstain":
            return Abstention("words", AbstainReason.DEADLINE, "too slow")
        if verb == "offer":
            return Judgement("words", ReplyKind.OPTIONS, {}, tuple(words), closest=0)
        if verb not in ("ask", "draft", "near"):
            return Judgement("words", ReplyKind.CHITCHAT, {})
        label = Engagement.TANGENTIAL if verb == "near" else Engagement.DIRECT
        kind = ReplyKind.DRAFT if verb == "draft" else ReplyKind.QUESTION
        entries = {word: NodeJudgement(label, 1, "evidence") for word in words}
        return Judgement("words", kind, entries)


def play(chat, sampler, judge=None, task=TASK, episode=EPISODE, **changes):
    """Play one episode to its end and return it."""
    dialogue = DiscoveryDialogue(
        task, episode, rules(**changes), chat, sampler, judge or WordJudge()
    )
    return asyncio.run(dialogue.run())
