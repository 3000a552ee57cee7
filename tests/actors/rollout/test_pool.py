"""The pool of rollout workers: sessions stay, load spreads, the dead are left behind."""

import asyncio
from collections import Counter

import pytest

from actors.rollout import pool as pool_module
from actors.rollout.pool import RolloutPool
from rl.sampling import SampleRequest, SampleResult, SamplingError


def request(session="", prompt=(1, 2, 3), completions=4):
    return SampleRequest(
        seat="assistant",
        prompt_ids=prompt,
        seeds=tuple(range(completions)),
        max_tokens=8,
        temperature=1.0,
        session=session,
    )


class FakeWorker:
    """Stands for an actor handle: its result's version is its name; it can be held or broken."""

    def __init__(self, name):
        self.name, self.error, self.gate, self.asked = name, None, None, 0
        self.sample = self

    async def remote(self, asked):
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return SampleResult(self.name, ())


def dead():
    from ray.exceptions import RayActorError

    return RayActorError()


def workers(count):
    return [FakeWorker(f"w{index}") for index in range(count)]


def test_a_session_stays_on_its_worker_whatever_it_asks():
    """Its prompts grow and change, and the two seats of a dialogue share no prefix at all."""

    async def story():
        pool = RolloutPool(workers(3))
        chosen = {}
        for turn in range(4):
            for session in "abcdef":
                prompt = (1, 2) if turn % 2 else tuple(range(200))
                answer = await pool.sample(request(session, prompt))
                chosen.setdefault(session, set()).add(answer.version)
        assert all(len(versions) == 1 for versions in chosen.values())

    asyncio.run(story())


def test_sessions_that_begin_alike_do_not_crowd_on_one_worker():
    """All dialogues begin with the same system prompt; each worker takes its share."""

    async def story():
        made = workers(3)
        for worker in made:
            worker.gate = asyncio.Event()
        pool = RolloutPool(made)
        system_prompt = tuple(range(300))
        calls = [
            asyncio.create_task(pool.sample(request(f"s{index}", system_prompt)))
            for index in range(12)
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for worker in made:
            worker.gate.set()
        answers = await asyncio.gather(*calls)
        assert Counter(answer.version for answer in answers) == {"w0": 4, "w1": 4, "w2": 4}

    asyncio.run(story())


def test_load_is_counted_in_completions():
    async def story():
        made = workers(2)
        for worker in made:
            worker.gate = asyncio.Event()
        pool = RolloutPool(made)
        calls = [asyncio.create_task(pool.sample(request("big", completions=8)))]
        await asyncio.sleep(0)
        for index in range(3):
            calls.append(asyncio.create_task(pool.sample(request(f"small{index}", completions=2))))
            await asyncio.sleep(0)
        for worker in made:
            worker.gate.set()
        await asyncio.gather(*calls)
        assert [worker.asked for worker in made] == [1, 3]
        assert not +pool._load  # all given back

    asyncio.run(story())


def test_requests_without_a_session_are_not_remembered():
    async def story():
        pool = RolloutPool(workers(2))
        await pool.sample(request())
        assert not pool._sessions

    asyncio.run(story())


def test_the_oldest_sessions_are_forgotten(monkeypatch):
    monkeypatch.setattr(pool_module, "_REMEMBERED", 3)

    async def story():
        pool = RolloutPool(workers(2))
        for session in "abcada":  # a is used again and again
            await pool.sample(request(session))
        assert list(pool._sessions) == ["c", "d", "a"]

    asyncio.run(story())


def test_a_dead_worker_is_left_and_its_sessions_move_for_good():
    async def story():
        made = workers(2)
        pool = RolloutPool(made)
        assert (await pool.sample(request("a"))).version == "w0"
        made[0].error = dead()
        for _ in range(3):
            assert (await pool.sample(request("a"))).version == "w1"
        assert made[0].asked == 2  # once alive, once dead

    asyncio.run(story())


def test_a_dead_worker_does_not_attract_new_sessions_as_the_least_busy(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(pool_module.time, "monotonic", lambda: now[0])

    async def story():
        made = workers(2)
        made[0].error = dead()
        pool = RolloutPool(made)
        for index in range(10):
            assert (await pool.sample(request(f"s{index}"))).version == "w1"
        assert made[0].asked == 1
        made[0].error = None  # it was restarted: after a while it takes part again
        now[0] += 61
        assert (await pool.sample(request("later"))).version == "w0"

    asyncio.run(story())


def test_pitfall_18_all_workers_dead_is_a_named_failure():
    async def story():
        made = workers(3)
        for worker in made:
            worker.error = dead()
        with pytest.raises(SamplingError, match="none of 3 rollout workers answers"):
            await RolloutPool(made).sample(request("a"))
        assert [worker.asked for worker in made] == [1, 1, 1]

    asyncio.run(story())


def test_pitfall_19_a_request_that_cannot_be_answered_is_asked_once():
    async def story():
        made = workers(2)
        made[0].error = SamplingError("prompt of 900 tokens leaves 10 of the 48 wanted")
        with pytest.raises(SamplingError, match=r"^prompt of 900 tokens leaves 10"):
            await RolloutPool(made).sample(request("a"))
        assert [worker.asked for worker in made] == [1, 0]

    asyncio.run(story())


@pytest.fixture
def real_workers(local_ray):
    """Two real actors that answer with their name, or fail when told; ended with the test."""
    import ray

    class WorkerDouble:
        def __init__(self, name):
            self.name = name

        async def sample(self, asked):
            if asked.prompt_ids == (0,):
                raise SamplingError("prompt of 900 tokens leaves 10 of the 48 wanted")
            if asked.prompt_ids == (9,) and self.name == "one":
                raise RuntimeError("the engine is dead")
            if asked.prompt_ids == (5,) or (asked.prompt_ids == (7,) and self.name == "one"):
                await asyncio.sleep(60)
            return SampleResult(self.name, ())

    made = [ray.remote(WorkerDouble).options(num_cpus=0).remote(name) for name in ("one", "two")]
    ray.get([one.sample.remote(request()) for one in made], timeout=60)
    yield made
    for one in made:
        ray.kill(one)


def test_real_actors_that_fail_or_die(real_workers):
    import ray

    async def story():
        pool = RolloutPool(real_workers)
        assert (await pool.sample(request("a"))).version == "one"
        with pytest.raises(SamplingError) as caught:  # the worker's own words, no traceback
            await pool.sample(request("a", (0,)))
        assert str(caught.value) == "prompt of 900 tokens leaves 10 of the 48 wanted"
        # A live actor with a broken engine is no use either.
        assert (await pool.sample(request("b", (9,)))).version == "two"

        waiting = asyncio.create_task(pool.sample(request("a", (5,))))
        await asyncio.sleep(0.3)
        ray.kill(real_workers[0])
        await asyncio.sleep(0.3)
        ray.kill(real_workers[1])  # where the waiting request moved
        with pytest.raises(SamplingError, match="none of 2 rollout workers answers; the last"):
            await asyncio.wait_for(waiting, 30)
        with pytest.raises(SamplingError) as caught:
            await pool.sample(request("a"))
        assert "\n" not in str(caught.value)

    asyncio.run(story())


def test_a_request_in_flight_moves_when_its_worker_is_killed(real_workers):
    import ray

    async def story():
        pool = RolloutPool(real_workers)
        waiting = asyncio.create_task(pool.sample(request("a", (7,))))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        ray.kill(real_workers[0])
        assert (await asyncio.wait_for(waiting, 30)).version == "two"

    asyncio.run(story())
