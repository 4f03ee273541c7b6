"""A paused service takes jobs and starts none."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import redis

from jobs.redis.client import REDIS_FULL
from jobs.redis.embedded import EmbeddedServer
from service import pause as command
from service.pause import PAUSED, QUEUE_PAUSED, Pause
from service.routes.health import NO_MEMORY
from tests.integration.api.test_jobs import ASYNC, SEEDED
from tests.support.ledger.ledgers import Bench, redis_bench
from tools.harness.api import Api


@pytest.fixture
def bench(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Bench]:
    with redis_bench(valkey, key_prefix) as each:
        yield each


@pytest.fixture
def pause(bench: Bench, key_prefix: str) -> Pause:
    assert isinstance(bench.clock.client, redis.Redis)
    return Pause(bench.clock.client, key_prefix)


def test_no_job_starts_and_none_is_sent_again_until_it_ends(bench: Bench, pause: Pause) -> None:
    running, message = bench.running(), bench.submit()
    pause.begin()
    assert not bench.claim(message) and bench.state(message.job_id) == "queued"
    bench.clock.advance(60)
    assert bench.ledger.lost_messages("cpu", broker_is_empty=True, grace_s=2) == []
    assert bench.succeed(running)  # what ran goes on to its end
    pause.end()
    (lost,) = bench.ledger.lost_messages("cpu", broker_is_empty=True, grace_s=2)
    again = bench.ledger.republish(lost)
    assert again is not None and again.job_id == message.job_id
    assert bench.claim(again)


def test_a_worker_that_asks_again_for_what_it_has_gets_it(bench: Bench, pause: Pause) -> None:
    message = bench.running()
    pause.begin()
    assert bench.claim(message)


def test_it_is_told(
    api: Api, quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "checked_settings", lambda: api.settings)
    assert command.main(["on", "--wait"]) == 0
    assert capsys.readouterr().out == "paused; 0 jobs run\n"
    assert quiet.get("/readyz").json() == {"status": "ok", "workers": 1, "warnings": [PAUSED]}
    assert "matmul_paused 1.0" in quiet.get("/metrics").text.splitlines()
    assert "Paused: jobs are accepted" in quiet.get("/ui/devices").text
    assert quiet.post("/v1/matmul", json=SEEDED, headers=ASYNC).status_code == 202
    command.main(["off"])
    command.main(["show"])
    assert capsys.readouterr().out == 2 * "not paused; 0 jobs run\n"
    assert "warnings" not in quiet.get("/readyz").json()
    assert "Paused" not in quiet.get("/ui/devices").text


def test_a_queue_paused_alone_is_told(
    api: Api, quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "checked_settings", lambda: api.settings)
    assert command.main(["on", "--queue", "gpu"]) == 0
    assert quiet.get("/readyz").json()["warnings"] == [QUEUE_PAUSED.format("gpu")]
    assert command.main(["off", "--queue", "gpu"]) == 0
    assert "warnings" not in quiet.get("/readyz").json()
    assert command.main(["on", "--queue", "gpus"]) == 1  # it would pause nothing
    assert capsys.readouterr().err == "There is no queue 'gpus'; there are gpu, cpu and bench-….\n"
    assert "warnings" not in quiet.get("/readyz").json()


def test_a_full_redis_is_told(
    api: Api, quiet: httpx.Client, bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the probe, and by a command that it refuses."""
    monkeypatch.setattr(command, "checked_settings", lambda: api.settings)
    client = bench.clock.client
    assert client is not None
    client.config_set("maxmemory", "1mb")
    try:
        assert quiet.get("/readyz").json()["warnings"] == [NO_MEMORY]
        assert command.main(["on"]) == 1
    finally:
        client.config_set("maxmemory", "0")
    assert capsys.readouterr().err == f"{REDIS_FULL}\n"
    assert "warnings" not in quiet.get("/readyz").json()
