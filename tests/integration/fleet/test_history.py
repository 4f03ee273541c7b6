"""What the sweeper notes of the fleet, in a real Valkey."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from jobs.errors import StoreFull
from jobs.fleet.history import SERIES, History, HistoryKeeper
from jobs.fleet.registry import WorkerRegistry
from jobs.fleet.workers import Telemetry, WorkerInfo
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from tests.support.ledger.ledgers import settings_for
from tools.harness.api import worker_info

FINE = SERIES["5m"]


@pytest.fixture
def client(valkey: EmbeddedServer, key_prefix: str) -> Iterator[redis.Redis]:
    with connect(settings_for(valkey, key_prefix)) as each:
        yield each


class Clock:
    """Moves by hand."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def looking(keeper: HistoryKeeper, clock: Clock, seconds: int) -> None:
    for _ in range(seconds):
        clock.now_s += 1
        keeper.look()


def test_a_step_has_means_of_what_was_seen_and_rising_counts(client: redis.Redis, key_prefix: str) -> None:
    history, clock = History(client, key_prefix), Clock()
    busy = worker_info().model_copy(update={"job": "job_1", "telemetry": Telemetry(power_w=300.0)})
    workers: list[WorkerInfo] = [busy, worker_info("other")]
    keeper = HistoryKeeper(history, lambda: workers, lambda: [(2, 3.5), (1, 0.0)], clock=clock)
    client.hset(f"{key_prefix}counts", mapping={"ended:succeeded": 7, "ended:failed": 1})
    looking(keeper, clock, 6)
    (found,) = history.read(FINE)
    assert (found.workers, found.busy, found.power_w) == (2, 1, 300)
    assert (found.waiting, found.oldest_s, found.succeeded, found.failed, found.cancelled) == (3, 3.5, 7, 1, 0)


def test_series_are_bounded(client: redis.Redis, key_prefix: str) -> None:
    history = History(client, key_prefix)
    for at in range(2 * FINE.kept):
        history.write(FINE, {"workers": float(at)})
    found = history.read(FINE)
    assert len(found) == FINE.kept and found[-1].workers == 2 * FINE.kept - 1


def test_a_clock_that_was_set_back_leaves_a_gap_and_nothing_ahead(client: redis.Redis, key_prefix: str) -> None:
    history, (now_s, _) = History(client, key_prefix), client.time()
    for workers, at_s in ((1, now_s - 60), (2, now_s + 3600)):
        client.xadd(f"{key_prefix}history:5m", {"workers": workers}, id=f"{at_s * 1000}-0")
    history.write(FINE, {"workers": 3})
    found = history.read(FINE)
    assert [sample.workers for sample in found] == [1, 3]
    assert found[-1].at.timestamp() < now_s + 1800


def test_what_another_version_wrote_is_passed_over(client: redis.Redis, key_prefix: str) -> None:
    entry: Any = {"workers": "2", "speed": "fast", "power_w": "much"}
    client.xadd(f"{key_prefix}history:5m", entry)
    (found,) = History(client, key_prefix).read(FINE)
    assert found.workers == 2 and found.power_w is None and found.succeeded is None


def test_what_was_seen_before_the_lock_was_elsewhere_is_forgotten(client: redis.Redis, key_prefix: str) -> None:
    history, clock = History(client, key_prefix), Clock()
    workers = [worker_info()]
    keeper = HistoryKeeper(history, lambda: workers, lambda: [], clock=clock)
    looking(keeper, clock, 3)
    clock.now_s += 100
    workers.clear()
    looking(keeper, clock, 6)
    assert [each.workers for each in history.read(FINE)] == [0]


def test_a_full_redis_leaves_a_gap(client: redis.Redis, key_prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    history, clock = History(client, key_prefix), Clock()

    def full(*_: object) -> None:
        raise StoreFull

    monkeypatch.setattr(History, "write", full)
    looking(HistoryKeeper(history, lambda: [], lambda: [], clock=clock), clock, 12)
    assert not history.read(FINE)


def test_a_drained_worker_hears_of_it_with_its_beat(client: redis.Redis, key_prefix: str) -> None:
    registry = WorkerRegistry(client, prefix=key_prefix)
    assert not registry.beat(worker_info(), 10)
    registry.drain("played")
    assert registry.is_drained("played") and registry.beat(worker_info(), 10)
    registry.resume("played")
    assert not registry.beat(worker_info(), 10)
    registry.drain("played")
    registry.gone("played")  # another process with its name takes jobs
    assert not registry.is_drained("played")
