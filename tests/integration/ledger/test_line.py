"""Scripts sent from an event loop, over one connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from jobs.errors import StoreUnavailable
from jobs.ledger.redis import RedisLedger
from jobs.models import ANONYMOUS
from jobs.redis import line as line_module
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer, free_port
from jobs.redis.line import ScriptLine
from tests.chaos.network.proxy import Proxies
from tests.support.ledger.ledgers import new_job, redis_ledger, settings_for

pytestmark = pytest.mark.anyio
LIMITS = {"max_queued": 50, "max_queued_per_owner": 50}


@asynccontextmanager
async def line_to(server: EmbeddedServer, prefix: str) -> AsyncIterator[tuple[RedisLedger, ScriptLine]]:
    settings = settings_for(server, prefix)
    with connect(settings) as client:
        ledger = redis_ledger(client, prefix)
        line = ScriptLine(settings, ledger.scripts)
        try:
            yield ledger, line
        finally:
            await line.close()


async def test_those_that_come_together_go_together_and_each_gets_its_own(
    valkey: EmbeddedServer, key_prefix: str
) -> None:
    async with line_to(valkey, key_prefix) as (ledger, line):
        jobs = [new_job() for _ in range(40)]
        with valkey.client() as client:
            client.script_flush()  # known to Redis only after the first
        recorded = await asyncio.gather(*(ledger.submit_on(line, job, **LIMITS) for job in jobs))
        assert [job.id for job, _ in recorded] == [job.id for job in jobs]
        assert [job.record.queue_position for job, _ in recorded] == list(range(1, 41))
        for job, message in recorded:
            assert message is not None
            assert ledger.get(job.id) == job


async def test_a_refusal_is_of_one_call(valkey: EmbeddedServer, key_prefix: str) -> None:
    async with line_to(valkey, key_prefix) as (ledger, line):
        calls = [
            ledger.submit_on(line, new_job(), **LIMITS),
            line.run("lost_messages", "cpu"),
            line.run("depths", "cpu"),
        ]
        recorded, refused, depths = await asyncio.gather(*calls, return_exceptions=True)
        assert not isinstance(recorded, BaseException) and not isinstance(depths, BaseException)
        assert "nil" in str(refused)  # it lacks arguments
        assert depths[0][0] == 1


async def test_a_caller_that_goes_away_takes_no_one_along(valkey: EmbeddedServer, key_prefix: str) -> None:
    async with line_to(valkey, key_prefix) as (ledger, line):
        gone = asyncio.create_task(ledger.submit_on(line, new_job(), **LIMITS))
        stays = asyncio.create_task(ledger.submit_on(line, new_job(), **LIMITS))
        await asyncio.sleep(0)
        gone.cancel()
        job, _ = await stays
        assert ledger.get(job.id).owner == ANONYMOUS


async def test_it_outlives_an_outage(own_server: EmbeddedServer) -> None:
    async with line_to(own_server, "t:") as (ledger, line):
        await ledger.submit_on(line, new_job(), **LIMITS)
        own_server.kill()
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await ledger.submit_on(line, new_job(), **LIMITS)
        own_server.start()
        await ledger.submit_on(line, new_job(), **LIMITS)
        own_server.stop()  # and a connection that was closed while no one used it
        own_server.start()
        await asyncio.sleep(0.1)
        await ledger.submit_on(line, new_job(), **LIMITS)


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])  # as uvicorn runs it
async def test_a_connection_that_was_reset_a_moment_ago_is_an_outage(
    valkey: EmbeddedServer, key_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_module, "IDLE_S", 60.0)  # it is not looked at before it is used
    front = free_port()
    link = {"name": "link", "listen": front, "target": valkey.port, "fails_calls": False}
    proxies = Proxies([link], seed=1, log=tmp_path / "proxy.log")
    behind = settings_for(valkey, key_prefix).model_copy(
        update={"redis_url": SecretStr(valkey.url.replace(f":{valkey.port}/", f":{front}/"))}
    )
    async with line_to(valkey, key_prefix) as (ledger, _), AsyncExitStack() as left, asyncio.timeout(60):
        left.callback(proxies.stop)
        line = ScriptLine(behind, ledger.scripts)
        await ledger.submit_on(line, new_job(), **LIMITS)
        proxies.do("link", "reset")
        await asyncio.sleep(0.05)  # the end arrives
        with pytest.raises(StoreUnavailable):
            await ledger.submit_on(line, new_job(), **LIMITS)
        await ledger.submit_on(line, new_job(), **LIMITS)
        await line.close()


async def test_who_asks_what_is_written_shares_the_next_answer(
    valkey: EmbeddedServer, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with line_to(valkey, key_prefix) as (ledger, line):
        sent: list[str] = []
        exchange = line._exchange

        async def watched(calls: Sequence[Any]) -> None:
            sent.extend(call.script for call in calls)
            await exchange(calls)

        monkeypatch.setattr(line, "_exchange", watched)
        await asyncio.gather(*(line.written() for _ in range(10)))
        assert sent == ["written"]
        sent.clear()
        await asyncio.gather(ledger.submit_on(line, new_job(), **LIMITS), *(line.written() for _ in range(10)))
        assert sent == ["submit"]
        sent.clear()
        await asyncio.gather(line.run("depths", "cpu"), *(line.written() for _ in range(10)))
        assert sent == ["depths", "written"]  # what only reads says nothing of the file
