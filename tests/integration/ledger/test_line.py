"""Scripts sent from an event loop, over one connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from jobs.errors import StoreFull, StoreUnavailable
from jobs.ledger.limits import Limits
from jobs.ledger.redis import RedisLedger
from jobs.matrices.index import Bounds
from jobs.models import ANONYMOUS
from jobs.redis import line as line_module
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer, free_port
from jobs.redis.line import ScriptLine
from jobs.requests.job_matrices import JobMatrices
from tests.chaos.network.proxy import Proxies
from tests.support.ledger.ledgers import assert_books_agree, new_job, outcome, redis_ledger, settings_for

pytestmark = pytest.mark.anyio
LIMITS: dict[str, Any] = {"max_queued": 50, "max_queued_per_owner": 50}


@asynccontextmanager
async def line_to(server: EmbeddedServer, prefix: str, **options: Any) -> AsyncIterator[tuple[RedisLedger, ScriptLine]]:
    """`options`: of `redis_ledger`."""
    settings = settings_for(server, prefix)
    with connect(settings) as client:
        ledger = redis_ledger(client, prefix, **options)
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
        assert [each.job.id for each in recorded] == [job.id for job in jobs]
        assert [each.job.record.queue_position for each in recorded] == list(range(1, 41))
        for each in recorded:
            assert ledger.get(each.job.id) == each.job


async def test_jobs_of_one_step_share_the_room_that_there_is(valkey: EmbeddedServer, key_prefix: str) -> None:
    """A bound of each owner, and one of all; what is there before counts."""
    async with line_to(valkey, key_prefix, bounds=Bounds(1200, 700)) as (ledger, line):
        matrices = JobMatrices(a=b"a" * 50, b=b"b" * 50, product_bytes=100, ttl_s=60)
        ledger.submit(new_job("carol", matrices=matrices), **LIMITS)
        owners = ["alice", "alice", "bob", "alice", "alice", "bob", "bob", "alice"]
        asked = (ledger.submit_on(line, new_job(owner, matrices=matrices), **LIMITS) for owner in owners)
        replies = await asyncio.gather(*asked, return_exceptions=True)
        refused = [isinstance(reply, StoreFull) for reply in replies]
        assert refused == [False] * 4 + [True, False, True, True]
        told = [str(reply) for reply in replies if isinstance(reply, StoreFull)]
        assert [text[: text.index(" are used")].split(": ")[1] for text in told] == [
            *("600 of 700", "1200 of 1200", "1200 of 1200")
        ]
        with valkey.client() as client:
            assert assert_books_agree(client, key_prefix) == 6


@pytest.mark.parametrize("owners", [("alice",) * 16, ("alice", "bob") * 8, ("bob", "alice") * 8])
async def test_the_oldest_go_where_many_are_recorded_in_one_step(
    valkey: EmbeddedServer, key_prefix: str, owners: Sequence[str]
) -> None:
    """As many as came, at least, so that there are never more than a few above the bounds."""
    async with line_to(valkey, key_prefix, max_ended=Limits(60, 20)) as (ledger, line):
        ended: dict[str, list[str]] = {"alice": [], "bob": []}
        for owner in ["bob"] * 10 + ["alice"] * 27:
            ended[owner].append(ledger.submit(new_job(owner), **LIMITS)[0].id)
            ledger.claim(ended[owner][-1], 1, worker="w", lease_s=6)
            assert ledger.succeed(ended[owner][-1], 1, outcome(), None)
        for _ in range(3):
            jobs = [new_job(owner) for owner in owners]
            await asyncio.gather(*(ledger.submit_on(line, job, **LIMITS) for job in jobs))
            for job in jobs:
                ledger.claim(job.id, 1, worker="w", lease_s=6)
                assert ledger.succeed(job.id, 1, outcome(), None)
                ended[job.owner].append(job.id)
        await asyncio.gather(*(ledger.submit_on(line, new_job(owner), **LIMITS) for owner in owners))
        with valkey.client() as client:
            for owner, jobs_of in ended.items():
                kept = [id.decode() for id in client.zrange(f"{key_prefix}finished:{owner}", 0, -1)]
                assert kept == jobs_of[-len(kept) :] and min(20, len(jobs_of)) <= len(kept) <= 28, owner
            assert_books_agree(client, key_prefix)


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
        job = (await stays).job
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
    own_server: EmbeddedServer, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with line_to(own_server, key_prefix) as (ledger, line):
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
        assert sent == ["written", "submit"]  # one for all, and before what it would find unwritten
        sent.clear()
        await asyncio.gather(line.run("depths", "cpu"), *(line.written() for _ in range(10)))
        assert sent == ["written", "depths"]
