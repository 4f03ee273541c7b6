"""The register of live workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from jobs.errors import StoreUnavailable
from jobs.fleet.registry import WorkerRegistry
from jobs.fleet.workers import Ceilings, DeviceInfo, WorkerInfo
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from tests.support.ledger.ledgers import CLOCK_LUA, Clock, settings_for

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass
class Fleet:
    registry: WorkerRegistry
    clock: Clock

    def live(self) -> list[str]:
        return [info.id for info in self.registry.live()]


def worker(name: str) -> WorkerInfo:
    device = DeviceInfo(name="A CPU", device_class="cpu", cores=2)
    return WorkerInfo(
        id=name,
        state="ready",
        device=device,
        queue="cpu",
        kernels=("cpu_blas",),
        started_at=NOW,
        seen_at=NOW,
        lease_s=10.0,
    )


@pytest.fixture
def fleet(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Fleet]:
    with connect(settings_for(valkey, key_prefix)) as client:
        registry = WorkerRegistry(client, prefix=key_prefix, clock=CLOCK_LUA)
        yield Fleet(registry, Clock(client=client, prefix=key_prefix))


def test_workers_are_live_until_they_fall_silent(fleet: Fleet) -> None:
    assert fleet.live() == []
    fleet.registry.beat(worker("b"), 10)
    fleet.registry.beat(worker("a"), 5)
    assert fleet.registry.live() == [worker("a"), worker("b")]
    fleet.clock.advance(4)
    fleet.registry.beat(worker("a"), 5)
    fleet.clock.advance(5)
    assert fleet.live() == ["b"]
    fleet.clock.advance(1)
    assert fleet.live() == []


def test_a_worker_that_says_goodbye_is_gone_at_once(fleet: Fleet) -> None:
    fleet.registry.beat(worker("a"), 10)
    fleet.registry.gone("a")
    fleet.registry.gone("unknown")
    assert fleet.live() == []


def test_silent_workers_leave_nothing_behind(fleet: Fleet) -> None:
    client, prefix = fleet.clock.client, fleet.clock.prefix
    assert client is not None
    fleet.registry.beat(worker("a"), 1)
    fleet.clock.advance(2)
    fleet.registry.beat(worker("b"), 1)
    assert client.hkeys(f"{prefix}workers:info") == [b"b"]
    assert client.zrange(f"{prefix}workers", 0, -1) == [b"b"]


def test_a_worker_of_another_version_does_not_stop_the_fleet(fleet: Fleet) -> None:
    client, prefix = fleet.clock.client, fleet.clock.prefix
    assert client is not None
    fleet.registry.beat(worker("a"), 10)
    fleet.registry.beat(worker("b"), 10)
    client.hset(f"{prefix}workers:info", "a", '{"id": "a", "from_the_future": 1}')
    assert fleet.live() == ["b"]


def test_a_full_redis_still_hears_its_workers(own_server: EmbeddedServer) -> None:
    with connect(settings_for(own_server, "t:")) as client:
        registry = WorkerRegistry(client, prefix="t:")
        client.config_set("maxmemory", "1mb")
        registry.beat(worker("a"), 10)
        assert [info.id for info in registry.live()] == ["a"]


def test_without_redis_it_says_so(own_server: EmbeddedServer) -> None:
    with connect(settings_for(own_server, "t:")) as client:
        registry = WorkerRegistry(client, prefix="t:")
        own_server.kill()
        for call in (registry.live, lambda: registry.beat(worker("a"), 1), lambda: registry.gone("a")):
            with pytest.raises(StoreUnavailable):
                call()


def test_roofs_outlive_their_worker(fleet: Fleet) -> None:
    device = DeviceInfo(name="A GPU", device_class="gpu", uuid="GPU-1")
    assert fleet.registry.roofs(device) == Ceilings()
    roofs = Ceilings(memory_gb_s=4000.5, gflops={"float32": 60_000.25})
    fleet.registry.keep_roofs(device.model_copy(update={"measured": roofs}))
    assert fleet.registry.roofs(device) == roofs
    assert fleet.registry.roofs(device.model_copy(update={"uuid": "GPU-2"})) == Ceilings()
