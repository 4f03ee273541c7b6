"""What a failover takes where nobody waits for replicas, and that nothing is said to be recorded where they are waited
for and have not got it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from jobs.errors import JobNotFound, StoreUnavailable
from jobs.ledger.interface import JobFilter
from jobs.ledger.redis import RedisLedger
from jobs.queue import make_ledger
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.redis.replicas import ReplicaLine
from jobs.settings import Settings
from service.context import Breaker
from tests.support.ledger.ledgers import new_job
from tests.support.replicas.servers import Servers, frozen, promote

PREFIX = "matmul:"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(tmp_path, 1)
    servers.primary.start()
    servers.start_replicas()
    yield servers
    servers.stop()


def settings_of(server: EmbeddedServer, replicas: int) -> Settings:
    return Settings(redis_url=SecretStr(server.url_of("api")), redis_replicas=replicas, redis_timeout_s=0.4)


@contextmanager
def ledger_at(server: EmbeddedServer, replicas: int = 0) -> Iterator[RedisLedger]:
    settings = settings_of(server, replicas)
    with connect(settings) as client:
        yield make_ledger(settings, client)


def submitted(ledger: RedisLedger) -> str:
    job, _ = ledger.submit(new_job(), max_queued=9, max_queued_per_owner=9)
    return job.id


def test_a_replica_that_got_nothing_more_loses_what_nobody_waited_for(servers: Servers) -> None:
    replica = servers.replicas[0]
    with ledger_at(servers.primary) as ledger:
        had = submitted(ledger)
        with ledger_at(servers.primary, replicas=1) as waiting:
            waiting.check_written()
        with frozen(replica):
            lost = submitted(ledger)
            ledger.check_written()  # nobody waits
            servers.primary.kill()
            replica.kill()  # what was on its way to it is lost
    replica.start()
    promote(replica)
    with ledger_at(replica) as ledger:
        assert ledger.get(had).id == had
        with pytest.raises(JobNotFound):
            ledger.get(lost)


def test_no_answer_says_that_a_job_is_recorded_before_a_replica_has_it(servers: Servers) -> None:
    replica = servers.replicas[0]
    with ledger_at(servers.primary, replicas=1) as ledger:
        with frozen(replica):
            submitted(ledger)
            breaker = Breaker()
            with pytest.raises(StoreUnavailable, match="Too few replicas"):
                breaker.run(ledger.check_written)
            assert breaker.run(lambda: ledger.list(JobFilter(), limit=9).jobs), "reading goes on"
        job = submitted(ledger)
        ledger.check_written()
        servers.primary.kill()
    promote(replica)
    with ledger_at(replica) as ledger:
        assert ledger.get(job).id == job


def test_so_it_is_on_an_event_loop_where_many_share_an_answer(servers: Servers) -> None:
    async def waits() -> None:
        line = ReplicaLine(settings_of(servers.primary, 1))
        await asyncio.gather(*(line.wait() for _ in range(50)))
        with frozen(servers.replicas[0]):
            for told in await asyncio.gather(*(line.wait() for _ in range(3)), return_exceptions=True):
                assert isinstance(told, StoreUnavailable) and "Too few replicas" in str(told.detail)
        await line.wait()
        with servers.primary.client() as root:
            root.client_kill_filter(_type="normal", skipme=True)
        async with asyncio.timeout(60):
            while line._connection and not await line._connection.can_read():  # until the loop has seen the end
                await asyncio.sleep(0)
        await line.wait()  # over another connection
        servers.primary.kill()
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await line.wait()
        await line.close()

    asyncio.run(waits())


def test_a_replica_is_told_apart_from_a_primary_without_replicas(servers: Servers) -> None:
    """It refuses WAIT itself, with an error of no code."""

    async def waits() -> None:
        line = ReplicaLine(settings_of(servers.replicas[0], 1))
        with pytest.raises(StoreUnavailable, match="is a replica"):
            await line.wait()
        await line.close()

    asyncio.run(waits())
    with ledger_at(servers.replicas[0], replicas=1) as ledger, pytest.raises(StoreUnavailable, match="is a replica"):
        ledger.check_written()


def test_a_primary_without_enough_replicas_refuses_at_once_where_it_is_set_so(servers: Servers) -> None:
    with servers.primary.client() as root, ledger_at(servers.primary) as ledger:
        root.config_set("min-replicas-to-write", 2)
        with pytest.raises(StoreUnavailable, match="too few replicas"):
            submitted(ledger)
