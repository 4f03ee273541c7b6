"""How many jobs are under way at once, of how many bytes; and that the device's cores have one product at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

import pytest

from jobs.errors import StaleAttempt
from worker.device.cancellable_lock import CancellableLock, never_cancelled
from worker.process.job_threads import JobThreads, Room

TIMEOUT_S = 60.0


class Held:
    """Jobs that go on until they are let go, and how many began."""

    def __init__(self) -> None:
        self.began: Queue[int] = Queue()
        self.go: dict[int, threading.Event] = {}

    def job(self, number: int) -> Callable[[], None]:
        self.go[number] = threading.Event()

        def run() -> None:
            self.began.put(number)
            assert self.go[number].wait(TIMEOUT_S)

        return run


def in_thread(call: Callable[[], object]) -> threading.Event:
    """Set once the call has returned."""
    done = threading.Event()

    def run() -> None:
        call()
        done.set()

    threading.Thread(target=run, daemon=True).start()
    return done


def test_so_many_jobs_are_under_way_and_no_more() -> None:
    threads, held = JobThreads(2), Held()
    threads.start(held.job(1))
    threads.wait_for_one()
    threads.start(held.job(2))
    assert {held.began.get(timeout=TIMEOUT_S) for _ in range(2)} == {1, 2}
    room, idle = in_thread(threads.wait_for_one), in_thread(threads.wait_for_all)
    assert not room.is_set()
    held.go[1].set()
    assert room.wait(TIMEOUT_S)
    assert not idle.is_set()
    held.go[2].set()
    assert idle.wait(TIMEOUT_S)


def test_where_the_system_gives_no_thread_the_job_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, ran, main = JobThreads(2), Queue[int](), threading.get_ident()

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        threads.start(lambda: ran.put(threading.get_ident()))
    assert ran.get_nowait() == main and threads.free == 2
    threads.start(lambda: ran.put(0))
    assert ran.get(timeout=TIMEOUT_S) == 0
    threads.wait_for_all()
    assert threads.free == 2 and ran.empty()  # the thread found the first one in its queue, and let it be


def test_a_job_that_breaks_off_leaves_its_thread_to_the_next() -> None:
    threads, held = JobThreads(1), Held()

    def broken() -> None:
        raise ValueError

    threads.start(broken)
    threads.start(held.job(1))
    assert held.began.get(timeout=TIMEOUT_S) == 1
    held.go[1].set()
    threads.wait_for_all()


def test_matrices_under_way_have_a_bound_and_a_larger_job_goes_alone() -> None:
    room, entered = Room(100), [threading.Event() for _ in range(3)]
    release = [threading.Event() for _ in range(3)]

    def use(number: int, size: int) -> None:
        with room.taken(size, never_cancelled):
            entered[number].set()
            assert release[number].wait(TIMEOUT_S)

    with ThreadPoolExecutor(3) as pool:
        pool.submit(use, 0, 60)
        assert entered[0].wait(TIMEOUT_S)
        pool.submit(use, 1, 1000)
        pool.submit(use, 2, 30)
        assert not entered[1].wait(0.2)
        release[2].set()
        release[0].set()
        assert entered[1].wait(TIMEOUT_S)
        release[1].set()
    assert entered[2].is_set()


def test_waiting_for_room_or_cores_can_be_cancelled() -> None:
    room, lock = Room(100), CancellableLock()

    def called_off() -> None:
        raise StaleAttempt

    def waits_for_room() -> None:
        with pytest.raises(StaleAttempt), room.taken(50, called_off):
            pass

    def waits_for_cores() -> None:
        with pytest.raises(StaleAttempt), lock.request(called_off) as device_lock:
            device_lock.acquire()

    with room.taken(80, never_cancelled), lock.request() as device_lock:
        device_lock.acquire()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(waits_for_room).result(TIMEOUT_S)
            pool.submit(waits_for_cores).result(TIMEOUT_S)
    with room.taken(50, called_off), lock.request(called_off) as device_lock:
        device_lock.acquire()


def test_cores_are_free_once_a_turn_ends_however_it_ends() -> None:
    lock = CancellableLock()
    with pytest.raises(ValueError), lock.request() as device_lock:  # this test's own
        device_lock.acquire()
        device_lock.acquire()
        raise ValueError
    with lock.request() as device_lock:
        device_lock.acquire()
        device_lock.release()
        device_lock.release()
        with ThreadPoolExecutor(1) as pool, lock.request() as other:
            pool.submit(other.acquire).result(TIMEOUT_S)
            pool.submit(other.release).result(TIMEOUT_S)
