"""The store of what was measured for `auto` is damaged, overfull or away: work between jobs goes on."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import pytest
import redis

from jobs.errors import StoreFull, StoreUnavailable
from jobs.fleet import measured
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from tests.integration.fleet.test_tune import beat
from tests.integration.worker.test_spare_time import NAME, Worker, by_tables
from tests.support.ledger.ledgers import settings_for
from tests.support.workers.simulated import unhurried
from worker.process import tune as tuning
from worker.process.tune import tune

DAMAGED_NAMES = (
    b"float32 fp32 \xff\xfe1x2x3x4",
    b"float32 fp32 0x903x1203x1",
    b"float32 fp32 " + b"9" * 5000 + b"x1x1x1",
    b"float32 fp32 999999999999999999x999999999999999999x999999999999999999x1",
    b"float32 bf16 701x903x1203x1",
    b"complex64 fp64 701x903x1203x1",
    b"int8 fp32 701x903x1203x1",
    b"",
)


@pytest.fixture
def settings(valkey: EmbeddedServer, key_prefix: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    unhurried(monkeypatch)
    return settings_for(valkey, key_prefix)


@pytest.fixture
def client(settings: Settings) -> Iterator[redis.Redis]:
    with connect(settings) as client:
        yield client


def key(one: Worker, kind: str, client: redis.Redis) -> str:
    found = one.shared._key(kind)
    assert not client.exists(found)
    return found


@pytest.mark.parametrize("name", DAMAGED_NAMES)
def test_a_damaged_name_does_not_keep_others_from_being_measured(
    name: bytes, settings: Settings, client: redis.Redis
) -> None:
    one = Worker(client, settings.key_prefix)
    client.zadd(key(one, "wanted", client), {NAME.encode(): 1, name: 2})
    for _ in range(20):
        one.spare_time._look_at = 0.0
        one.spare_time._try_step()
    assert one.shared.to_measure(9) == []
    assert one.taken() == "fp32_emulated"


def test_damaged_fields_do_not_keep_others_from_being_read(settings: Settings, client: redis.Redis) -> None:
    one = Worker(client, settings.key_prefix)
    client.hset(key(one, "measured", client), mapping={b"\xff": b"\xfe", NAME.encode(): b"\xff", b"sound": b"{}"})
    assert one.shared.all()["sound"] == "{}"
    assert one.shared.of([NAME])[NAME] != ""
    one.taken()
    one.work()
    assert one.taken() == by_tables()


def test_no_more_is_read_than_a_worker_keeps(
    settings: Settings, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store with fields that nothing would ever remove, and one too long to be read."""
    monkeypatch.setattr(measured, "MAX_MEASURED", 100)
    one = Worker(client, settings.key_prefix)
    fields = key(one, "measured", client)
    client.hset(fields, mapping={f"{number}": "{}" for number in range(1000)})
    client.hset(fields, "long", "x" * (measured.MAX_TEXT + 1))
    assert 90 <= len(one.shared.all()) <= 100
    assert one.shared.of(["long"]) == {}
    one.shared.keep("new", "figures")
    assert one.shared.all() == {"new": "figures"}, "fields without an age are removed"


def test_a_shape_asked_for_while_redis_is_away_is_measured_later(
    settings: Settings, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Worker(client, settings.key_prefix)
    one.work()
    one.taken()
    with monkeypatch.context() as away:

        def begin(_name: str) -> bool:
            raise StoreUnavailable

        away.setattr(one.shared, "begin", begin)
        assert not one.spare_time._try_step()
    one.work()
    assert one.taken() == "fp32_emulated"


def test_what_cannot_be_stored_is_taken_by_whoever_measured_it(
    settings: Settings, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Worker(client, settings.key_prefix)

    def full(_name: str, _text: str) -> None:
        raise StoreFull

    monkeypatch.setattr(one.shared, "keep", full)
    one.taken()
    assert not one.spare_time._try_step()
    assert one.taken() == "fp32_emulated" and one.gpu.behaviour.benches == 1


def test_a_request_to_measure_ends_soon_after_whoever_asked_is_gone(settings: Settings, client: redis.Redis) -> None:
    """As one that was killed does not take it back."""
    one = Worker(client, settings.key_prefix, "asked")
    one.shared.ask()
    assert 0 < client.ttl(f"{settings.key_prefix}tune") <= 60


def test_whoever_asked_may_stop_waiting(
    settings: Settings, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By Ctrl-C: a sentence, and workers go on listing shapes."""
    one = Worker(client, settings.key_prefix, "asked")
    one.taken()
    one.work()
    beat(one, client, settings.key_prefix)

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    monkeypatch.setattr(tuning, "checked_settings", lambda: settings)
    assert tuning.main([]) == 0
    assert capsys.readouterr().err == f"{tuning.STOPPED}\n"
    assert not one.shared.is_asked() and one.shared.to_measure(9) == [NAME]


def test_two_may_ask_at_once_and_the_first_to_end_does_not_end_the_other(
    settings: Settings, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tuning, "LOOK_EVERY_S", 0.01)
    one = Worker(client, settings.key_prefix, "asked")
    one.taken()
    one.work()
    beat(one, client, settings.key_prefix)
    statuses: list[int] = []
    asking = Thread(target=lambda: statuses.append(tune(settings)))
    asking.start()
    assert tune(settings, stuck_s=0.05) == 1, "the other gives up"
    while asking.is_alive():
        one.spare_time._look_at = 0.0
        one.work()
    assert statuses == [0] and one.taken() == "fp32_emulated"


def test_where_the_store_does_not_tell_what_others_measured_all_else_goes_on(
    settings: Settings, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again, but not at each step."""
    one = Worker(client, settings.key_prefix)
    asked: list[str] = []

    def refused() -> dict[str, str]:
        asked.append("all")
        raise StoreUnavailable("The job store does not serve.")

    monkeypatch.setattr(one.shared, "all", refused)
    assert one.taken() == by_tables()
    one.work()
    assert one.taken() == "fp32_emulated" and asked == ["all"]
    one.spare_time._look_at = 0.0
    one.work()
    assert asked == ["all", "all"]


@pytest.mark.parametrize("kind", ["measured", "wanted"])
def test_keys_that_something_else_made_are_removed(kind: str, settings: Settings, client: redis.Redis) -> None:
    """Else nothing could ever be read, listed or kept there."""
    one = Worker(client, settings.key_prefix)
    client.set(key(one, kind, client), "of another type")
    one.taken()
    for _ in range(20):
        one.spare_time._look_at = 0.0
        one.spare_time._try_step()
    assert one.taken() == "fp32_emulated" and one.shared.all()[NAME] != ""
    assert one.shared.to_measure(9) == []


def test_a_text_that_is_too_long_is_not_sent(settings: Settings, client: redis.Redis) -> None:
    one = Worker(client, settings.key_prefix)
    client.hset(key(one, "measured", client), mapping={"long": "x" * (measured.MAX_TEXT + 1), "short": "{}"})
    assert one.shared._run("read_shapes", measured.MAX_TEXT, "long", "short", "none") == [None, b"{}", None]
