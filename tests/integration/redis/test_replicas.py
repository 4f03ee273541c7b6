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
from jobs.ledger.interface import IdempotencyKey, JobFilter
from jobs.ledger.redis import RedisLedger
from jobs.models import Job
from jobs.queue import make_ledger
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.redis.line import ScriptLine
from jobs.redis.replicas import Mark, ReplicaLine
from jobs.settings import Settings
from service.context import Breaker
from tests.support.ledger.ledgers import new_job
from tests.support.replicas.endpoint import Endpoint
from tests.support.replicas.servers import Servers, demote, frozen, hand_over, promote

PREFIX = "matmul:"
TIMEOUT_S = 20.0  # a replica of a busy machine may be slow
SHORT_TIMEOUT_S = 3.0  # where no replica will answer


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(tmp_path, 1)
    servers.primary.start()
    servers.start_replicas()
    yield servers
    servers.stop()


def settings_of(server: EmbeddedServer, replicas: int, timeout_s: float = TIMEOUT_S) -> Settings:
    url = SecretStr(server.url_of("api"))
    return Settings(redis_url=url, redis_replicas=replicas, redis_timeout_s=timeout_s, lease_s=3 * TIMEOUT_S)


@contextmanager
def ledger_at(server: EmbeddedServer, replicas: int = 0, timeout_s: float = TIMEOUT_S) -> Iterator[RedisLedger]:
    settings = settings_of(server, replicas, timeout_s)
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
        with frozen(replica), ledger_at(servers.primary, replicas=1, timeout_s=SHORT_TIMEOUT_S) as impatient:
            submitted(ledger)
            breaker = Breaker()
            with pytest.raises(StoreUnavailable, match="Too few replicas"):
                breaker.run(impatient.check_written)
            assert breaker.run(lambda: ledger.list(JobFilter(), limit=9).jobs), "reading goes on"
        job = submitted(ledger)
        ledger.check_written()
        servers.primary.kill()
    promote(replica)
    with ledger_at(replica) as ledger:
        assert ledger.get(job).id == job


def test_a_primary_that_never_had_the_job_does_not_say_that_it_is_recorded(tmp_path: Path) -> None:
    """The old one answered, died, and another took its place, all before anyone asked whether replicas have it."""
    servers = Servers(tmp_path, 2)
    servers.primary.start()
    servers.start_replicas()
    new, other = servers.replicas
    try:
        with ledger_at(servers.primary, replicas=1) as ledger:
            had = submitted(ledger)
            with servers.primary.client(TIMEOUT_S) as root:
                root.publish("follow", "")
                assert root.wait(2, 10_000) == 2
            with frozen(*servers.replicas):
                lost = submitted(ledger)
                for server in servers.all:
                    server.kill()
        for replica in servers.replicas:
            replica.start()
        promote(new)
        demote(other, new)
        with ledger_at(new, replicas=1) as ledger:
            ledger.check_written(Mark(had, minimum=ledger.get(had).version))
            for mark in Mark(lost), Mark(had, minimum=ledger.get(had).version + 1), Mark(had, "finished", minimum=1):
                with pytest.raises(StoreUnavailable, match="Another server became the job store"):
                    ledger.check_written(mark)
        asyncio.run(line_tells_apart(settings_of(new, 1), had, lost))
    finally:
        servers.stop()


async def line_tells_apart(settings: Settings, had: str, lost: str) -> None:
    """Among those who share an answer, each hears of its own."""
    line = ReplicaLine(settings)
    asked = (line.wait(Mark(had)), line.wait(Mark(lost)), line.wait(), line.wait(Mark(had), Mark(lost)))
    told = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(each, StoreUnavailable) for each in told] == [False, True, False, True]
    await line.close()


def test_what_a_replica_refused_is_asked_of_the_primary(servers: Servers) -> None:
    """Whoever is connected to a server that handed over hears nothing of it where the address leads to the new one."""
    replica = servers.replicas[0]
    with Endpoint(servers.primary.port) as endpoint:
        url = servers.primary.url_of("api").replace(f":{servers.primary.port}", f":{endpoint.port}")
        settings = Settings(redis_url=SecretStr(url), redis_replicas=1, redis_timeout_s=5.0)
        with connect(settings) as client:
            ledger = make_ledger(settings, client)

            async def on_a_loop() -> None:
                script_line, replica_line = ScriptLine(settings, ledger.scripts), ReplicaLine(settings)

                async def submits() -> Job:
                    job = (await ledger.submit_on(script_line, new_job(), max_queued=9, max_queued_per_owner=9)).job
                    await replica_line.wait(Mark(job.id, minimum=job.version))
                    return job

                await submits()
                hand_over(servers.primary, replica)
                endpoint.target = replica.port
                job = await submits()
                assert ledger.get(job.id).version == job.version
                await script_line.close()
                await replica_line.close()

            key = IdempotencyKey("a key", "of a request")
            with servers.primary.client() as root:
                before = submitted(ledger)
                ledger.check_written(Mark(before))
                ledger.bind_key("someone", key, before)  # by the client's own pool
                asyncio.run(on_a_loop())
            ledger.bind_key("someone", key, before)
            after = submitted(ledger)
            ledger.check_written(Mark(after))
            with replica.client() as root:
                assert root.exists(*(f"{PREFIX}job:{job}" for job in (before, after))) == 2


def test_so_it_is_on_an_event_loop_where_many_share_an_answer(servers: Servers) -> None:
    async def waits() -> None:
        line = ReplicaLine(settings_of(servers.primary, 1))
        await asyncio.gather(*(line.wait() for _ in range(50)))
        impatient = ReplicaLine(settings_of(servers.primary, 1, SHORT_TIMEOUT_S))
        with frozen(servers.replicas[0]):
            for told in await asyncio.gather(*(impatient.wait() for _ in range(3)), return_exceptions=True):
                assert isinstance(told, StoreUnavailable) and "Too few replicas" in str(told.detail)
        await impatient.close()
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
