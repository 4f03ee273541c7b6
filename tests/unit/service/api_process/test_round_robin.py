"""Reports and plans are made one at a time; keys take turns."""

from __future__ import annotations

import asyncio
from functools import partial
from threading import Event

from service.api_process.render_cache import Renders
from service.api_process.round_robin import RoundRobin
from service.api_process.share import ALONE


def test_one_key_s_many_requests_delay_another_s_by_one() -> None:
    async def run() -> list[str]:
        renders, made = Renders(ALONE), list[str]()

        def make(name: str) -> bytes:
            made.append(name)
            return b""

        names = [("alice", f"alice {number}") for number in range(20)] + [("bob", "bob"), ("carol", "carol")]
        await asyncio.gather(*(renders.body(name, partial(make, name), owner=who) for who, name in names))
        return made

    made = asyncio.run(run())
    assert made[0] == "alice 0" and set(made[1:4]) == {"bob", "carol", "alice 1"}
    assert [name for name in made if name.startswith("alice")] == [f"alice {number}" for number in range(20)]


def test_a_long_one_delays_others_that_are_long_alone() -> None:
    async def run() -> None:
        renders, begun, may_end = Renders(ALONE), Event(), Event()

        def make() -> bytes:
            begun.set()
            assert may_end.wait(60.0)
            return b"long"

        first, second = (
            asyncio.ensure_future(renders.body(key, make, owner=key, is_long=True)) for key in ("alice", "bob")
        )
        assert await asyncio.to_thread(begun.wait, 60.0)
        quick = asyncio.ensure_future(renders.body("carol", lambda: b"quick", owner="carol"))
        await asyncio.wait({quick, first}, return_when=asyncio.FIRST_COMPLETED, timeout=60.0)
        assert quick.done() and quick.result() == b"quick"
        assert not first.done() and not second.done()
        may_end.set()
        assert {await first, await second} == {b"long"}

    asyncio.run(run())


def test_work_that_is_given_up_lets_the_next_go() -> None:
    async def run() -> list[str]:
        plans, done = RoundRobin(), list[str]()

        async def work(owner: str, name: str, until: asyncio.Event) -> None:
            async with plans.alone(owner):
                done.append(name)
                await until.wait()

        first, never = asyncio.Event(), asyncio.Event()
        tasks = [asyncio.create_task(work("alice", "first", first))]
        tasks += [asyncio.create_task(work(who, name, never)) for who, name in (("alice", "second"), ("bob", "third"))]
        await asyncio.sleep(0)
        tasks[2].cancel()
        first.set()
        for _ in range(9):
            await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with plans.alone("bob"):
            done.append("last")
        return done

    assert asyncio.run(run()) == ["first", "second", "last"]
