"""Threads for blocking work: as few as do, the last one first, and nothing of what is done stays with them."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from threading import Event, current_thread

import pytest

from service.api_process import work_threads
from service.api_process.in_thread import in_thread
from service.api_process.work_threads import WorkThreads

pytestmark = pytest.mark.anyio
TIMEOUT_S = 60
asked_by: ContextVar[str] = ContextVar("asked_by")


def waiting(begun: Event, goes_on: Event) -> Callable[[], threading.Thread]:
    def wait() -> threading.Thread:
        begun.set()
        assert goes_on.wait(TIMEOUT_S)
        return current_thread()

    return wait


async def test_one_thread_does_for_work_that_comes_one_after_another() -> None:
    threads = WorkThreads(4)
    assert len({await in_thread(current_thread, threads) for _ in range(50)}) == 1


async def test_there_are_as_many_threads_as_may_be_and_the_rest_waits() -> None:
    threads, goes_on = WorkThreads(2), Event()
    begun = [Event() for _ in range(3)]
    doing = [asyncio.create_task(in_thread(waiting(each, goes_on), threads)) for each in begun]
    assert all([await asyncio.to_thread(each.wait, TIMEOUT_S) for each in begun[:2]]) and not begun[2].is_set()
    goes_on.set()
    assert len(set(await asyncio.gather(*doing))) == 2


async def test_work_has_the_context_of_who_asks_for_it_and_changes_none() -> None:
    threads = WorkThreads(1)

    def work() -> str:
        asked_by.set(found := asked_by.get())
        return found

    for name in ("first", "second"):
        asked_by.set(name)
        assert await in_thread(work, threads) == name
    assert await in_thread(lambda: asked_by.set("thread"), threads) and asked_by.get() == "second"


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError(), SystemExit(3)])
async def test_who_asks_gets_the_error(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        await in_thread(fail, threads := WorkThreads(1))
    assert await in_thread(lambda: 7, threads) == 7


async def test_the_end_of_an_iterator_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await in_thread(lambda: next(iter(())), WorkThreads(1))


async def test_nothing_of_the_work_stays_with_its_thread() -> None:
    """The buffers of a body or a reply are free then."""

    class Thing:
        def made(self) -> Thing:
            return Thing()

    threads, thing = WorkThreads(1), Thing()
    result = await in_thread(thing.made, threads)
    gone = weakref.ref(thing), weakref.ref(result)
    del thing, result
    await in_thread(lambda: None, threads)  # the thread is past what it did before
    gc.collect()
    assert [each() for each in gone] == [None, None]


async def test_nothing_of_work_that_fails_stays_once_its_error_is_gone() -> None:
    """Without a search for garbage, which may come late: what it had was read from a large body."""

    class Thing:
        pass

    kept: list[weakref.ref[Thing]] = []

    def fail() -> None:
        thing = Thing()
        kept.append(weakref.ref(thing))
        raise ValueError

    threads = WorkThreads(1)
    gc.disable()
    try:
        with pytest.raises(ValueError) as caught:
            await in_thread(fail, threads)
        del caught
        await in_thread(lambda: None, threads)  # the thread is past what it did before
        assert kept[0]() is None
    finally:
        gc.enable()


async def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_threads, "IDLE_S", 0.01)
    threads = WorkThreads(1)
    first = await in_thread(current_thread, threads)
    await asyncio.to_thread(first.join, TIMEOUT_S)
    assert not first.is_alive() and await in_thread(current_thread, threads) is not first


async def test_work_that_comes_as_a_thread_gives_up_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_threads, "IDLE_S", 0.0)
    threads = WorkThreads(2)
    assert [await in_thread(lambda n=n: n, threads) for n in range(500)] == [*range(500)]  # type: ignore[misc]


def test_a_loop_that_is_closed_meanwhile_is_no_error() -> None:
    threads, begun, goes_on = WorkThreads(1), Event(), Event()

    async def ask() -> None:
        threads.start(waiting(begun, goes_on))
        await asyncio.sleep(0)

    asyncio.run(ask())
    assert begun.wait(TIMEOUT_S)
    goes_on.set()

    async def again() -> int:
        return await in_thread(lambda: 7, threads)

    assert asyncio.run(again()) == 7


async def test_a_thread_that_cannot_be_started_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = WorkThreads(1)

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="can't start"):
        patch.setattr(threading.Thread, "start", fail)
        await in_thread(lambda: 7, threads)
    assert await in_thread(lambda: 7, threads) == 7
