"""Connections to Redis: what becomes of its errors, and how soon they show."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time

import pytest
import redis
from pydantic import SecretStr

from jobs.errors import StoreFull, StoreUnavailable
from jobs.queue import make_celery
from jobs.redis.client import connect, connect_async, keepalive_options, translated
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from tests.support.ledger.ledgers import settings_for
from tests.support.prompt import soon
from tools.harness.api import until


@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (redis.ConnectionError("refused"), StoreUnavailable),
        (redis.TimeoutError("slow"), StoreUnavailable),
        (redis.AuthenticationError("wrong password"), StoreUnavailable),
        (redis.BusyLoadingError("Redis is loading the dataset in memory", status_code="LOADING"), StoreUnavailable),
        (redis.ReadOnlyError("You can't write against a replica", status_code="READONLY"), StoreUnavailable),
        (redis.ResponseError("MISCONF Errors writing to the AOF file"), StoreUnavailable),
        (redis.ResponseError("NOPERM User default has no permissions to run the 'evalsha' command"), StoreUnavailable),
        (redis.ResponseError("BUSY Redis is busy running a script"), StoreUnavailable),
        (redis.OutOfMemoryError("command not allowed", status_code="OOM"), StoreFull),
        (redis.ResponseError("OOM command not allowed when used memory > 'maxmemory'"), StoreFull),
        (redis.ResponseError("WRONGTYPE Operation against a key"), redis.ResponseError),
        (redis.DataError("not a string"), redis.DataError),
        (KeyError("x"), KeyError),
    ],
)
def test_redis_errors_become_ours(error: Exception, becomes: type[Exception]) -> None:
    with pytest.raises(becomes) as caught, translated():
        raise error
    assert caught.value is error or caught.value.__cause__ is error


def test_it_decorates(valkey: EmbeddedServer) -> None:
    @translated()
    def double(number: int) -> int:
        return 2 * number

    assert (double(2), double(3)) == (4, 6)


def test_the_timeout_is_the_settings_or_the_callers_own(own_server: EmbeddedServer) -> None:
    settings = settings_for(own_server, "t:").model_copy(update={"redis_timeout_s": 0.5})

    def refused_after(client: redis.Redis) -> float:
        started = time.monotonic()
        with pytest.raises(StoreUnavailable), translated():
            client.ping()
        return time.monotonic() - started

    with connect(settings, timeout_s=0.1) as quick, connect(settings) as patient:
        until(lambda: answers(quick) and answers(patient))  # a busy server may keep the first waiting
        os.kill(own_server.pid, signal.SIGSTOP)
        soon(0.25, lambda: refused_after(quick))
        assert refused_after(patient) >= settings.redis_timeout_s
        os.kill(own_server.pid, signal.SIGCONT)


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.TimeoutError:
        return False


def test_over_a_unix_socket(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("s")  # short: a socket's path has room for some 100 characters
    server = EmbeddedServer(directory, options=(f"unixsocket {directory}/s",))
    server.start()
    try:
        password = server.url.removeprefix("redis://:").partition("@")[0]
        with connect(Settings(redis_url=SecretStr(f"unix://:{password}@{directory}/s"))) as client:
            assert client.ping()
    finally:
        server.stop()


def test_asyncio_has_the_same(valkey: EmbeddedServer) -> None:
    async def set_and_get() -> object:
        async with connect_async(settings_for(valkey, "t:")) as client:
            await client.set("t:async", "value", ex=5)
            return await client.get("t:async")

    assert asyncio.run(set_and_get()) == b"value"


def test_a_server_that_vanished_is_noticed_in_five_seconds(valkey: EmbeddedServer) -> None:
    """By the system, which asks after it: a host that moved away says nothing."""
    settings = settings_for(valkey, "t:")
    with connect(settings) as client:
        connection = client.connection_pool.get_connection()
        opened = connection._sock
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle, step, count = (
            opened.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert idle + step * count <= 5
        assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 5000
        client.connection_pool.release(connection)
    options = make_celery(settings).conf.broker_transport_options
    assert options["socket_keepalive_options"] == keepalive_options(settings)["socket_keepalive_options"]
    assert keepalive_options(settings.model_copy(update={"redis_url": SecretStr("unix:///tmp/x")})) == {}
