"""What workers measured for `auto`, and what they are still to measure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from jobs.fleet import measured
from jobs.fleet.measured import MeasuredShapes
from jobs.redis.acl import user_rules
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from tests.support.ledger.ledgers import CLOCK_LUA, Clock, settings_for

PASSWORD = "of-a-worker"


class Shared:
    """Of two models, with a clock that stands still, as Redis' user for workers."""

    def __init__(self, valkey: EmbeddedServer, prefix: str) -> None:
        settings = settings_for(valkey, prefix)
        self.client = connect(settings)
        rules = user_rules("worker", prefix, PASSWORD).split()
        self.user = f"worker-of-{prefix.strip(':')}"
        self.client.execute_command("ACL", "SETUSER", self.user, *rules[1:])  # type: ignore[no-untyped-call]
        url = f"redis://{self.user}:{PASSWORD}@127.0.0.1:{valkey.port}/0"
        self.worker = connect(settings.model_copy(update={"redis_url": SecretStr(url)}))
        self.clock = Clock(client=self.client, prefix=prefix)
        self.one, self.other = (
            MeasuredShapes(self.worker, prefix=prefix, model=model, clock=CLOCK_LUA) for model in ("h200:1", "h200:2")
        )

    def want(self, *names: str) -> None:
        """One after another."""
        for name in names:
            self.clock.advance(1)
            self.one.want([name])


@pytest.fixture
def shared(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Shared]:
    found = Shared(valkey, key_prefix)
    with found.client, found.worker:
        yield found
        found.client.acl_deluser(found.user)


def test_a_worker_may_ask_for_all_of_it(shared: Shared) -> None:
    shared.one.ask()
    shared.one.keep("a", "figures")
    assert shared.one.all() == {"a": "figures"} and shared.one.is_asked()
    assert not any(shared.user in str(line) for line in shared.client.acl_log())


def test_what_one_worker_measured_all_of_its_model_know(shared: Shared) -> None:
    shared.want("a", "b")
    assert shared.one.begin("a")
    shared.one.keep("a", "figures")
    assert shared.one.all() == {"a": "figures"} == shared.one.of(["a", "b"])
    assert shared.one.to_measure(9) == ["b"]
    assert (shared.other.all(), shared.other.of([]), shared.other.to_measure(9)) == ({}, {}, [])


def test_a_shape_is_begun_once_and_not_wanted_again(shared: Shared) -> None:
    """Also where nothing came of it, or its worker ended."""
    shared.want("a")
    assert shared.one.begin("a")
    assert not shared.one.begin("a")
    shared.want("a")
    assert shared.one.to_measure(9) == []
    assert shared.one.all() == {"a": ""} and shared.one.of(["a"]) == {}


def test_what_was_put_back_is_wanted_again(shared: Shared) -> None:
    assert shared.one.begin("a")
    shared.one.put_back("a")
    assert (shared.one.to_measure(9), shared.one.all()) == (["a"], {})
    assert shared.one.begin("a")
    shared.one.keep("a", "figures")
    shared.one.put_back("a")
    assert (shared.one.to_measure(9), shared.one.all()) == ([], {"a": "figures"})


def test_both_are_bounded_and_the_oldest_go(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "MAX_MEASURED", 2)
    monkeypatch.setattr(measured, "MAX_WANTED", 2)
    shared.want("a", "b", "c", "a")
    assert shared.one.to_measure(9) == ["a", "c"] and shared.one.to_measure(1) == ["a"]
    for name in ("x", "y", "x", "z"):
        shared.clock.advance(1)
        shared.one.keep(name, f"of {name}")
    assert shared.one.all() == {"x": "of x", "z": "of z"}
    assert set(shared.client.scan_iter(f"{shared.clock.prefix}measured*")) == {
        f"{shared.clock.prefix}measured:h200:1{end}".encode() for end in ("", ":age")
    }


def test_what_nobody_changes_is_forgotten_in_time(shared: Shared) -> None:
    shared.want("a")
    shared.one.keep("b", "figures")
    for key in shared.client.scan_iter(f"{shared.clock.prefix}*:h200:1*"):
        assert 0 < shared.client.ttl(key) <= measured.KEPT_S


def test_workers_are_asked_for_a_time(shared: Shared) -> None:
    assert not shared.one.is_asked()
    shared.other.ask()
    assert shared.one.is_asked()
    shared.one.end_asking()
    assert not shared.other.is_asked()


def test_what_comes_after_the_clock_was_set_back_is_not_the_oldest(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "MAX_MEASURED", 2)
    monkeypatch.setattr(measured, "MAX_WANTED", 2)
    shared.one.keep("a", "figures")
    shared.clock.advance(1)
    shared.one.keep("b", "figures")
    shared.want("d", "e")
    shared.clock.advance(-3600)
    shared.one.keep("c", "figures")
    shared.want("f")
    assert sorted(shared.one.all()) == ["b", "c"]
    assert shared.one.to_measure(9) == ["f", "e"]
