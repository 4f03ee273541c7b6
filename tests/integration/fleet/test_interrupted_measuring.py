"""A measurement for `auto` is interrupted, or Redis goes away meanwhile: the shape is measured later, by someone."""

from __future__ import annotations

import time
from threading import Event

import pytest
import redis

from jobs.errors import StoreFull, StoreUnavailable
from jobs.fleet import measured
from jobs.settings import Settings
from kernels.model.numerics import Problem
from tests.integration.fleet.test_damaged_store import client, settings
from tests.integration.worker.test_spare_time import NAME, Gpu, Worker
from worker.process import spare_time
from worker.process.device_loans import DeviceWanted
from worker.product.probe import Probe
from worker.product.shapes import Measured

__all__ = ["client", "settings"]  # fixtures
DEADLINE_S = 60.0


def refused(*_: str) -> None:
    raise StoreUnavailable


def full(*_: str) -> None:
    raise StoreFull


def interrupted(one: Worker, patch: pytest.MonkeyPatch) -> None:
    """A job arrives while it measures."""

    def wanted(*_: object) -> Measured:
        raise DeviceWanted

    with patch.context() as job:
        job.setattr(Probe, "measure", wanted)
        one.taken()
        with pytest.raises(DeviceWanted):
            one.work()


def test_a_shape_is_put_back_once_redis_serves_again(
    settings: Settings, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Worker(client, settings.key_prefix)
    with monkeypatch.context() as away:
        away.setattr(one.shared, "put_back", refused)
        interrupted(one, monkeypatch)
    assert one.shared.all() == {NAME: ""}
    one.work()
    assert one.taken() == "fp32_emulated" and one.shared.to_measure(9) == []


def test_what_was_measured_is_kept_once_redis_takes_it(
    settings: Settings, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all others would take it for tried in vain."""
    one = Worker(client, settings.key_prefix)
    one.taken()
    with monkeypatch.context() as away:
        away.setattr(one.shared, "keep", full)
        assert not one.spare_time._try_step()
        assert one.taken() == "fp32_emulated" and one.shared.all() == {NAME: ""}
    one.spare_time._look_at = 0.0
    one.work()
    assert one.gpu.behaviour.benches == 1
    other = Worker(client, settings.key_prefix)
    other.work()
    assert (other.taken(), other.gpu.behaviour.benches) == ("fp32_emulated", 0)


def test_what_was_measured_is_kept_before_the_next_is_measured(
    settings: Settings, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Worker(client, settings.key_prefix)
    one.taken(Problem(703, 905, 1205, "float32"))
    one.taken()
    with monkeypatch.context() as away:
        away.setattr(one.shared, "keep", refused)
        assert not one.spare_time._try_step()
    one.work()
    assert all(one.shared.all().values()) and len(one.shared.all()) == one.gpu.behaviour.benches == 2


def test_a_shape_is_put_back_to_a_redis_that_lost_its_data(
    settings: Settings, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Worker(client, settings.key_prefix)
    began = one.shared.begin

    def begin_and_lose(name: str) -> bool:
        found = began(name)
        client.unlink(one.shared._key("measured"), f"{one.shared._key('measured')}:age")
        return found

    monkeypatch.setattr(one.shared, "begin", begin_and_lose)
    interrupted(one, monkeypatch)
    assert one.shared.to_measure(9) == [NAME]


def test_a_list_of_shapes_put_back_expires_and_is_bounded(
    settings: Settings, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "MAX_WANTED", 2)
    one = Worker(client, settings.key_prefix)
    for number in range(3):
        assert one.shared.begin(f"{number}")
        one.shared.put_back(f"{number}")
    assert len(one.shared.to_measure(9)) == 2
    assert 0 < client.ttl(one.shared._key("wanted")) <= measured.KEPT_S


def test_a_process_that_ends_puts_back_what_it_measures(
    settings: Settings, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spare_time, "QUIET_S", 0.01)
    monkeypatch.setattr(spare_time, "STOP_S", DEADLINE_S)
    sampled = Event()
    one = Worker(client, settings.key_prefix, "idle", Gpu(lambda *_: sampled.set()))
    put_back = one.shared.put_back

    def slowly(name: str) -> None:
        time.sleep(0.3)  # as a Redis that is far away
        put_back(name)

    def measuring(probe: Probe, *_: object) -> Measured:
        sampled.set()
        while True:
            one.loans.check()

    monkeypatch.setattr(one.shared, "put_back", slowly)
    monkeypatch.setattr(Probe, "measure", measuring)
    one.taken()
    one.spare_time.start()
    assert sampled.wait(DEADLINE_S)
    one.spare_time.stop()
    assert one.shared.to_measure(9) == [NAME]
