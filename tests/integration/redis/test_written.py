"""Redis holds back what it has answered while its append-only file is synced (`appendfsync everysec`)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis
from pydantic import SecretStr

from jobs.errors import StoreUnavailable
from jobs.ledger.redis import RedisLedger
from jobs.queue import make_ledger
from jobs.redis.acl import Role
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.redis.line import ScriptLine
from jobs.redis.written import WrittenQuestion
from jobs.settings import Settings
from tests.support.ledger.ledgers import new_job
from tools.harness.api import until

PATIENT_S = 60.0  # a busy machine may be slow
NO_END = """
#include <unistd.h>
int fdatasync(int file) { while (access(HELD, F_OK) == 0) usleep(1000); return 0; }
"""


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """While this file exists, no sync of the server ends."""
    return tmp_path / "held"


@pytest.fixture
def server(tmp_path: Path, held: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedServer]:
    library = tmp_path / "sync.so"
    command = ("gcc", "-shared", "-fPIC", f'-DHELD="{held}"', "-o", str(library), "-x", "c", "-")
    subprocess.run(command, input=NO_END, text=True, check=True)
    server = EmbeddedServer(tmp_path / "redis")
    with monkeypatch.context() as environment:
        environment.setenv("LD_PRELOAD", str(library))
        server.start()
    yield server
    held.unlink(missing_ok=True)
    server.kill()


@contextmanager
def ledger_at(server: EmbeddedServer, role: Role = "api") -> Iterator[RedisLedger]:
    settings = settings_of(server, role)
    with connect(settings) as client:
        yield make_ledger(settings, client)


def settings_of(server: EmbeddedServer, role: Role = "api") -> Settings:
    url = SecretStr(server.url_of(role))
    return Settings(redis_url=url, redis_timeout_s=PATIENT_S, lease_s=3 * PATIENT_S)


def submitted(ledger: RedisLedger) -> str:
    job, _ = ledger.submit(new_job(), max_queued=999, max_queued_per_owner=999)
    return job.id


def hold(server: EmbeddedServer, held: Path, ledger: RedisLedger) -> None:
    """Returns once a sync is under way that does not end."""
    held.touch()
    with server.client() as client:

        def is_syncing() -> bool:
            submitted(ledger)  # syncs follow changes, once a second
            return bool(client.info("persistence")["aof_pending_bio_fsync"])

        until(is_syncing)


def crash(server: EmbeddedServer, held: Path) -> None:
    server.kill()
    held.unlink()
    server.start()


def assert_there(server: EmbeddedServer, job_id: str) -> None:
    with ledger_at(server) as ledger:  # over a connection of its own
        assert ledger.get(job_id).id == job_id


@pytest.mark.parametrize("role", ["api", "worker"])
def test_who_does_not_wait_is_told(server: EmbeddedServer, held: Path, role: Role) -> None:
    with ledger_at(server) as ledger, ledger_at(server, role) as asking:
        hold(server, held, ledger)

        def is_told() -> bool:
            submitted(ledger)  # after two seconds Redis writes
            with suppress(StoreUnavailable):
                asking.check_written(wait_s=0)
                return False
            return True

        until(is_told)
        ledger.check_writable()  # to be busy is no fault


def test_who_waits_finds_it_after_a_crash(server: EmbeddedServer, held: Path) -> None:
    with ledger_at(server) as ledger:
        hold(server, held, ledger)
        job = submitted(ledger)
        ledger.check_written(wait_s=PATIENT_S)
    crash(server, held)
    assert_there(server, job)


@pytest.mark.anyio
async def test_so_does_who_waits_on_an_event_loop(server: EmbeddedServer, held: Path) -> None:
    with ledger_at(server) as ledger:
        line = ScriptLine(settings_of(server), ledger.scripts)
        hold(server, held, ledger)
        job = submitted(ledger)
        await line.written()
        await line.close()
    crash(server, held)
    assert_there(server, job)


@pytest.mark.anyio
async def test_who_waits_over_a_crash_is_told(
    server: EmbeddedServer, held: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Redis that begins anew has nothing to write, and would say so."""
    crashes: list[float] = []

    async def pause(seconds: float) -> None:
        crashes.append(seconds)
        crash(server, held)
        for _ in range(2):  # the first finds the end of the connection
            with suppress(StoreUnavailable):
                await line.run("depths", "cpu")

    with ledger_at(server) as ledger:
        line = ScriptLine(settings_of(server), ledger.scripts)
        hold(server, held, ledger)
        monkeypatch.setattr("jobs.redis.line.asyncio.sleep", pause)
        with pytest.raises(StoreUnavailable, match="anew"):
            while not crashes:  # after two seconds Redis writes
                submitted(ledger)
                await line.written()
        await line.close()


def test_where_info_is_not_allowed_what_was_answered_counts_as_written(server: EmbeddedServer, held: Path) -> None:
    with server.client() as client:
        client.acl_setuser("matmul-api", enabled=True, commands=["-info"])
    with ledger_at(server) as ledger:
        ledger.check_written(wait_s=0)
        with pytest.raises(redis.exceptions.NoPermissionError), connect(settings_of(server)) as client:
            client.info()


def test_what_replies_mean() -> None:
    question = WrittenQuestion(wait_s=PATIENT_S)
    assert question.pause_s((0, 1)) is None
    question = WrittenQuestion(wait_s=PATIENT_S)
    assert question.pause_s((5, 1))
    assert question.pause_s((5, 0)) == 0, "it is written with this reply, if that does not fail"
    assert question.pause_s((5, 1)) is None, "it did not, or the script would have been refused"
    question = WrittenQuestion(wait_s=0)
    assert question.pause_s((5, 0)) == 0
    with pytest.raises(StoreUnavailable):
        WrittenQuestion(wait_s=0).pause_s((5, 1))
