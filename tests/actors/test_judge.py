"""The judge actor and its client: batches, order, cache, deadline, deaths."""

import asyncio
import os
import threading
import time

import pytest

from actors import judge as judge_module
from actors.judge import JudgeWorker, RemoteJudge
from rl.config.schema import JudgeConfig
from rl.judging.backends import make_judge
from rl.judging.interface import (
    AbstainReason,
    Abstention,
    Engagement,
    Judgement,
    JudgeRequest,
    NodeQuestion,
    ReplyKind,
)


def request(reply):
    return JudgeRequest((("user", "hi"),), reply, ())


def requests(*replies):
    return tuple(request(reply) for reply in replies)


def verdict(reply):
    return Judgement(reply, ReplyKind.CHITCHAT, {})  # its judge's name says what was judged


class CountingJudge:
    """Stands for a judge: answers with the reply, keeps batches, and how many ran at once."""

    name = "counting"

    def __init__(self, seconds=0.0, failure=None, too_few=0):
        self.batches, self.at_once, self.most_at_once = [], 0, 0
        self.seconds, self.failure, self.too_few = seconds, failure, too_few
        self.lock = threading.Lock()

    def judge(self, asked):
        with self.lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.seconds)
        self.batches.append([one.reply for one in asked])
        with self.lock:
            self.at_once -= 1
        if self.failure is not None and any("bad" in one.reply for one in asked):
            raise self.failure
        return [verdict(one.reply) for one in asked][: len(asked) - self.too_few]


def worker(monkeypatch, judge, **changes):
    monkeypatch.setattr(judge_module, "make_judge", lambda config: judge)
    return JudgeWorker(JudgeConfig(**changes))


def judge_all(made, calls):
    async def ask():
        return await asyncio.gather(*(made.judge(call) for call in calls))

    return asyncio.run(asyncio.wait_for(ask(), 20))


# --- the worker -------------------------------------------------------------------------------


def test_calls_share_batches_and_keep_their_order(monkeypatch):
    judge = CountingJudge(seconds=0.01)
    calls = [requests(*(f"{call}-{place}" for place in range(call % 4))) for call in range(12)]
    answers = judge_all(worker(monkeypatch, judge, max_batch=5), calls)
    for call, answer in zip(calls, answers, strict=True):
        assert answer == [verdict(one.reply) for one in call]
    asked = [reply for batch in judge.batches for reply in batch]
    assert sorted(asked) == sorted(one.reply for call in calls for one in call)
    assert [len(batch) for batch in judge.batches] == [5, 5, 5, 3]  # 18 requests
    assert judge.most_at_once == 1


def test_a_call_larger_than_a_batch(monkeypatch):
    judge = CountingJudge()
    call = requests(*map(str, range(7)))
    assert judge_all(worker(monkeypatch, judge, max_batch=3), [call]) == [
        [verdict(str(place)) for place in range(7)]
    ]
    assert [len(batch) for batch in judge.batches] == [3, 3, 1]


def test_the_event_loop_is_free_while_the_judge_works(monkeypatch):
    made = worker(monkeypatch, CountingJudge(seconds=0.3))

    async def ask():
        call = asyncio.create_task(made.judge(requests("a")))
        await asyncio.sleep(0.05)
        start = time.monotonic()
        name = await made.ready()
        waited = time.monotonic() - start
        await call
        return name, waited

    name, waited = asyncio.run(ask())
    assert name == "counting"
    assert waited < 0.2


@pytest.mark.parametrize("failure", [RuntimeError("no memory"), KeyError("weights"), OSError("x")])
def test_pitfall_20_whatever_the_judge_raises_is_an_abstention_for_all_callers(
    monkeypatch, failure
):
    """Nobody waits for a verdict that another caller's batch lost."""
    made = worker(monkeypatch, CountingJudge(failure=failure), max_batch=3)
    calls = [requests("a", "bad"), requests("b"), requests("c", "d")]
    first, second, third = judge_all(made, calls)
    reason = Abstention("counting", AbstainReason.BACKEND_ERROR)
    assert (first, second) == ([reason, reason], [reason])
    assert third == [verdict("c"), verdict("d")]
    assert first[0].detail.startswith(f"{type(failure).__name__}: ")
    assert judge_all(made, [requests("e")]) == [[verdict("e")]]  # and it goes on


def test_too_few_verdicts_are_nobodys(monkeypatch):
    made = worker(monkeypatch, CountingJudge(too_few=1))
    (answer,) = judge_all(made, [requests("a", "b")])
    assert answer == [Abstention("counting", AbstainReason.BACKEND_ERROR)] * 2
    assert answer[0].detail == "ValueError: 1 verdicts for 2 requests"


def test_a_call_without_requests(monkeypatch):
    judge = CountingJudge()
    assert judge_all(worker(monkeypatch, judge), [()]) == [[]]
    assert judge.batches == []


# --- the client -------------------------------------------------------------------------------


class FakeWorker:
    """Stands for an actor handle: answers after ``seconds``, or fails, the first times or always.

    ``calls`` holds when it was asked.
    """

    def __init__(self, seconds=0.0, error=None, failures=10**9):
        self.seconds, self.error, self.failures, self.calls = seconds, error, failures, []
        self.judge = self

    async def remote(self, asked):
        self.calls.append(time.monotonic())
        await asyncio.sleep(self.seconds)
        if self.error is not None and len(self.calls) <= self.failures:
            raise self.error
        return [verdict(one.reply) for one in asked]


def unavailable():
    from ray.exceptions import ActorUnavailableError

    return ActorUnavailableError("it is being restarted", b"x" * 16)


def died():
    from ray.exceptions import ActorDiedError

    return ActorDiedError()


def ask(client, *replies):
    return asyncio.run(client.judge(list(requests(*replies))))


def test_requests_go_around():
    workers = [FakeWorker(), FakeWorker()]
    client = RemoteJudge(workers, 5.0)
    for reply in "abcd":
        assert ask(client, reply) == [verdict(reply)]
    assert [len(one.calls) for one in workers] == [2, 2]


def test_pitfall_20_a_slow_judge_costs_one_deadline_and_abstains():
    workers = [FakeWorker(seconds=30), FakeWorker()]
    client = RemoteJudge(workers, 0.2)
    start = time.monotonic()
    answer = ask(client, "a", "b")
    assert time.monotonic() - start < 2
    assert answer == [Abstention("judge", AbstainReason.DEADLINE)] * 2
    assert answer[0].detail == "no verdict within 0.2 s"
    assert workers[1].calls == []  # the deadline is the whole wait, not one of several
    assert ask(client, "c") == [verdict("c")]


def test_the_deadline_covers_all_attempts():
    workers = [FakeWorker(seconds=0.2, error=unavailable()) for _ in range(8)]
    start = time.monotonic()
    answer = ask(RemoteJudge(workers, 0.5), "a")
    assert answer[0].reason is AbstainReason.DEADLINE
    assert time.monotonic() - start < 1.2
    assert answer[0].detail.startswith("no verdict within 0.5 s; the last failure: ")
    assert "it is being restarted" in answer[0].detail


def test_every_worker_is_asked_before_any_is_waited_for():
    workers = [FakeWorker(error=unavailable()) for _ in range(3)] + [FakeWorker()]
    start = time.monotonic()
    assert ask(RemoteJudge(workers, 5.0), "a") == [verdict("a")]
    assert time.monotonic() - start < 0.4
    assert [len(one.calls) for one in workers] == [1, 1, 1, 1]


def test_the_only_worker_is_asked_again_after_growing_pauses(monkeypatch):
    monkeypatch.setattr(judge_module, "_FIRST_PAUSE_S", 0.1)
    only = FakeWorker(error=unavailable(), failures=3)
    assert ask(RemoteJudge([only], 20.0), "a", "b") == [verdict("a"), verdict("b")]
    pauses = [later - sooner for sooner, later in zip(only.calls, only.calls[1:], strict=False)]
    assert len(pauses) == 3
    for pause, least in zip(pauses, (0.1, 0.2, 0.4), strict=True):
        assert pause >= least - 0.01


def test_pauses_grow_to_a_limit(monkeypatch):
    slept = []

    async def sleep(seconds):
        if seconds:  # not the double's own
            slept.append(seconds)

    monkeypatch.setattr(judge_module.asyncio, "sleep", sleep)
    assert ask(RemoteJudge([FakeWorker(error=unavailable(), failures=6)], 60.0), "a")
    assert slept == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


def test_a_worker_that_is_dead_for_good_is_not_asked_again():
    workers = [FakeWorker(error=died()), FakeWorker()]
    client = RemoteJudge(workers, 5.0)
    for reply in "abcd":
        assert ask(client, reply) == [verdict(reply)]
    assert [len(one.calls) for one in workers] == [1, 4]


def test_pitfall_20_without_a_worker_all_abstain_at_once():
    workers = [FakeWorker(error=died()), FakeWorker(error=died())]
    client = RemoteJudge(workers, 30.0)
    start = time.monotonic()
    for _ in range(3):
        answer = ask(client, "a", "b")
        assert answer == [Abstention("judge", AbstainReason.BACKEND_ERROR)] * 2
        assert "died" in answer[0].detail
    assert time.monotonic() - start < 0.4
    assert [len(one.calls) for one in workers] == [1, 1]
    (nobody,) = ask(RemoteJudge([], 30.0), "a")
    assert nobody == Abstention("judge", AbstainReason.BACKEND_ERROR)
    assert nobody.detail == "there is no judge"


def test_a_death_while_another_is_restarted_leaves_the_other(monkeypatch):
    monkeypatch.setattr(judge_module, "_FIRST_PAUSE_S", 0.05)
    workers = [FakeWorker(error=died()), FakeWorker(error=unavailable(), failures=2)]
    assert ask(RemoteJudge(workers, 20.0), "a") == [verdict("a")]
    assert [len(one.calls) for one in workers] == [1, 3]


def test_a_request_that_makes_a_judge_raise_is_asked_of_each_once():
    from ray.exceptions import RayTaskError

    fault = RayTaskError("judge", "KeyError: a fault", KeyError("a fault"))
    workers = [FakeWorker(error=fault, failures=1), FakeWorker(error=fault, failures=1)]
    client = RemoteJudge(workers, 30.0)
    (answer,) = ask(client, "bad")
    assert answer == Abstention("judge", AbstainReason.BACKEND_ERROR)
    assert "a fault" in answer.detail
    assert [len(one.calls) for one in workers] == [1, 1]
    assert ask(client, "good") == [verdict("good")]  # they live


@pytest.fixture
def real_workers(local_ray):
    """Two real actors that judge, or sleep when told; ended with the test."""
    import ray

    class JudgeDouble:
        def __init__(self, name):
            self.name = name

        def judge(self, asked):
            if asked[0].reply == "sleep":
                time.sleep(60)
            if asked[0].reply == "raise":
                raise KeyError("a fault of the judge")
            return [Abstention(self.name, AbstainReason.EMPTY_REPLY) for _ in asked]

    made = [ray.remote(JudgeDouble).options(num_cpus=0).remote(name) for name in ("one", "two")]
    ray.get([one.judge.remote(requests("a")) for one in made], timeout=60)
    yield made
    for one in made:
        ray.kill(one)


def test_pitfall_20_real_actors_that_die_sleep_or_raise(real_workers):
    """A dead one: the next is asked. All dead, asleep or at fault: abstentions with the reason."""
    import ray

    first, second = real_workers

    async def story():
        client = RemoteJudge(real_workers, 20.0)
        assert [v.judge for v in await client.judge(requests("a", "b"))] == ["one", "one"]
        ray.kill(first)
        for _ in range(3):
            assert [v.judge for v in await client.judge(requests("a"))] == ["two"]
        (raised,) = await client.judge(requests("raise"))
        assert raised == Abstention("judge", AbstainReason.BACKEND_ERROR)
        assert "a fault of the judge" in raised.detail
        assert "\n" not in raised.detail

        hasty = RemoteJudge([second], 0.5)
        start = time.monotonic()
        asleep = await hasty.judge(requests("sleep"))
        assert time.monotonic() - start < 5
        assert [v.reason for v in asleep] == [AbstainReason.DEADLINE]

        ray.kill(second)
        dead = await client.judge(requests("a", "b"))
        assert [v.reason for v in dead] == [AbstainReason.BACKEND_ERROR] * 2

    asyncio.run(story())


def test_an_actor_that_dies_over_a_request_is_not_waited_for(real_workers):
    import ray

    async def story():
        client = RemoteJudge(real_workers[:1], 30.0)
        call = asyncio.create_task(client.judge(requests("sleep")))
        await asyncio.sleep(0.3)
        ray.kill(real_workers[0])
        start = time.monotonic()
        (answer,) = await call
        assert answer.reason is AbstainReason.BACKEND_ERROR
        assert time.monotonic() - start < 15

    asyncio.run(story())


@pytest.fixture(params=[0, 3])
def restarting_judge(request, local_ray):
    """The only real judge worker, started again by Ray when it is killed; ended with the test."""
    import ray

    made = (
        ray.remote(JudgeWorker)
        .options(num_cpus=0, max_concurrency=1000, max_restarts=3, max_task_retries=request.param)
        .remote(JudgeConfig(backend="cues"))
    )
    ray.get(made.ready.remote(), timeout=60)
    yield made
    ray.kill(made)


def process_of(actor):
    import ray

    return ray.get(actor.__ray_call__.remote(lambda self: os.getpid()), timeout=60)


@pytest.mark.stack
def test_the_only_judge_is_killed_and_no_call_goes_without_a_verdict(restarting_judge):
    """Asked at any moment of its restart, whether Ray repeats a call itself or lets it fail."""
    import ray

    question = NodeQuestion("1", "The poem rhymes.", "rhyme", ("rhyme",), ())
    asked = [JudgeRequest((("user", "Write."),), "Do you want a rhyme?", (question,))]
    expected = make_judge(JudgeConfig(backend="cues")).judge(asked)
    assert expected[0].label("1") is Engagement.DIRECT
    before = process_of(restarting_judge)

    async def story():
        client = RemoteJudge([restarting_judge], 60.0)
        assert await client.judge(asked) == expected
        ray.kill(restarting_judge, no_restart=False)
        calls = []
        for _ in range(25):
            calls.append(asyncio.create_task(client.judge(asked)))
            await asyncio.sleep(0.05)
        assert await asyncio.gather(*calls) == [expected] * 25

    asyncio.run(story())
    assert process_of(restarting_judge) != before
