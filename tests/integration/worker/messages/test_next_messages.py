"""A child takes what comes next from the broker's list itself, on a real Redis."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jobs.queue import broker_prefix
from tests.support.workers.workers import WorkerBench
from worker.queues import next_messages, stopping
from worker.queues.next_messages import NextMessages, read_message
from worker.queues.stopping import worker_stops

ONES = np.ones((2, 2), np.float32)
LONG_S = 600.0


@pytest.fixture
def no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on until something else ends it."""
    for name in ("LONGEST_S", "IDLE_S"):
        monkeypatch.setattr(next_messages, name, 1e9)
    monkeypatch.setattr(next_messages, "SHARE_OF_LIMIT", 1e9)


def waiting(bench: WorkerBench, queue: str = "cpu") -> list[bytes]:
    found: Any = bench.client.lrange(broker_prefix(bench.settings) + queue, 0, -1)
    return list(found)


def taken(bench: WorkerBench, timeout_s: float = LONG_S, others: Sequence[str] = ()) -> list[tuple[str, int]]:
    return [each[:2] for each in NextMessages(bench.settings).after(timeout_s, "cpu", others)]


def test_the_oldest_comes_first(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [bench.submit(ONES, ONES) for _ in range(3)]
    monkeypatch.setattr(next_messages, "IDLE_S", 0.05)
    assert taken(bench) == [(job_id, 1) for job_id in jobs]
    assert waiting(bench) == []


@pytest.mark.usefixtures("no_end")
def test_another_queue_ends_it(bench: WorkerBench) -> None:
    bench.client.lpush(broker_prefix(bench.settings) + "bench-x", b"a message")
    assert taken(bench, others=["bench-x"]) == []
    assert len(waiting(bench, "bench-x")) == 1


@pytest.mark.usefixtures("no_end")
@pytest.mark.parametrize(("job_s", "taken_before_the_end"), [(0.11, 3), (0.3, 1)])
def test_after_short_jobs_it_looks_as_it_takes_another_and_after_a_long_one_before_that(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch, job_s: float, taken_before_the_end: int
) -> None:
    clock = [0.0]
    monkeypatch.setattr(next_messages, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(next_messages, "IDLE_S", 1e9)
    jobs = [bench.submit(ONES, ONES) for _ in range(5)]
    bench.client.lpush(broker_prefix(bench.settings) + "bench-x", b"a message")
    done = []
    for job in NextMessages(bench.settings).after(LONG_S, "cpu", ["bench-x", "bench-y"]):
        done.append(job.job_id)
        clock[0] += job_s
    assert done == jobs[:taken_before_the_end]
    assert len(waiting(bench)) == len(jobs) - taken_before_the_end


@pytest.mark.usefixtures("no_end")
def test_a_job_with_more_time_than_the_task_has_goes_back(bench: WorkerBench) -> None:
    bench.submit(ONES, ONES)
    before = waiting(bench)
    message = read_message(before[0])
    assert message is not None
    bench.submit(ONES, ONES)
    assert taken(bench, timeout_s=message.timeout_s - 1) == []
    assert waiting(bench)[-1:] == before  # it is the next again


@pytest.mark.usefixtures("no_end")
def test_a_worker_that_stops_ends_it(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "_stopping", bytearray(1))
    bench.submit(ONES, ONES)
    messages = NextMessages(bench.settings).after(LONG_S, "cpu", [])
    assert next(messages)
    worker_stops()
    bench.submit(ONES, ONES)
    assert list(messages) == []
    assert len(waiting(bench)) == 1


def test_a_message_of_another_kind_is_left_out(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_messages, "IDLE_S", 0.5)
    bench.client.lpush(broker_prefix(bench.settings) + "cpu", b"\x00", b'{"body": "[]", "headers": {}}')
    job_id = bench.submit(ONES, ONES)
    assert taken(bench) == [(job_id, 1)]


def test_a_short_time_limit_is_left_to_its_job(bench: WorkerBench) -> None:
    bench.submit(ONES, ONES)
    assert taken(bench, timeout_s=0.0) == []
    assert len(waiting(bench)) == 1
