"""Callers who ask the same at the same time share an answer; none gets one that is older than its question."""

from __future__ import annotations

import asyncio

from service.api_process.single_flight import SingleFlight


def test_who_asks_later_gets_an_answer_that_begins_later() -> None:
    """As a reader that was woken by an event must not share a reading from before it: nobody would wake it again."""

    async def run() -> None:
        shared, answers, news = SingleFlight[str](), 0, "old"
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def answer() -> str:
            nonlocal answers
            answers += 1
            known = news
            begun.set()
            await may_end.wait()
            return known

        early = asyncio.ensure_future(shared.ask("job", answer))
        await begun.wait()
        news = "new"
        late = [asyncio.ensure_future(shared.ask("job", answer)) for _ in range(9)]
        await asyncio.sleep(0)
        may_end.set()
        assert await early == "old"
        assert await asyncio.gather(*late) == ["new"] * 9
        assert answers == 2
        assert await shared.ask("job", answer) == "new" and not shared._under_way and not shared._next

    asyncio.run(run())


def test_an_error_is_everyone_s_and_does_not_stay() -> None:
    async def run() -> None:
        shared = SingleFlight[str]()

        async def fail() -> str:
            raise OSError("no")

        async def answer() -> str:
            return "yes"

        told = await asyncio.gather(*(shared.ask("job", fail) for _ in range(3)), return_exceptions=True)
        assert [str(each) for each in told] == ["no"] * 3
        assert await shared.ask("job", answer) == "yes"

    asyncio.run(run())


def test_who_gives_up_leaves_the_answer_to_the_others() -> None:
    async def run() -> None:
        shared, may_end = SingleFlight[str](), asyncio.Event()

        async def answer() -> str:
            await may_end.wait()
            return "yes"

        first, second = (asyncio.ensure_future(shared.ask("job", answer)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        may_end.set()
        assert await second == "yes" and first.cancelled()

    asyncio.run(run())
