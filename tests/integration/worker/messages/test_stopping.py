"""A worker that is told to stop while Redis does not answer, and one whose broker went silent."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kombu.transport.redis import Transport

from jobs.queue import make_celery
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from tests.support.prompt import soon
from tests.support.workers.workers import END_TIMEOUT_S, START_TIMEOUT_S, WorkerBench, until

STOPS_IN_S = 25.0  # `make run` kills it after 30 s


@pytest.fixture
def bench(own_server: EmbeddedServer, tmp_path: Path) -> Iterator[WorkerBench]:
    bench = WorkerBench(own_server, tmp_path)
    yield bench
    os.kill(own_server.pid, signal.SIGCONT)
    bench.stop()
    bench.client.close()


def stopped(bench: WorkerBench) -> int:
    """Its exit status after SIGTERM."""
    assert bench.process is not None
    bench.process.send_signal(signal.SIGTERM)
    return bench.process.wait(END_TIMEOUT_S)


def test_it_does_not_wait_long_for_a_redis_that_is_silent(bench: WorkerBench) -> None:
    def stopped_in_s() -> float:
        os.kill(bench.server.pid, signal.SIGCONT)
        bench.client.flushall()  # its last heartbeat
        bench.start()
        os.kill(bench.server.pid, signal.SIGSTOP)
        began = time.monotonic()
        assert stopped(bench) == 0
        return time.monotonic() - began

    soon(STOPS_IN_S, stopped_in_s)


def test_a_child_that_is_not_ready_does_not_wait_for_redis(bench: WorkerBench) -> None:
    os.kill(bench.server.pid, signal.SIGSTOP)
    bench.spawn()
    until(lambda: "trying again [worker.device.retry]" in bench.log(), timeout_s=START_TIMEOUT_S, what="a child's wait")
    assert stopped(bench) == 0
    assert "ends before it is ready" in bench.log() and "is not ready" not in bench.log()


def test_a_worker_survives_the_death_of_its_child_before_it_has_found_redis(bench: WorkerBench) -> None:
    os.kill(bench.server.pid, signal.SIGSTOP)
    bench.spawn()
    bench.child().kill()
    os.kill(bench.server.pid, signal.SIGCONT)
    process = bench.process
    assert process is not None
    until(lambda: process.poll() is not None or bench.live(), timeout_s=START_TIMEOUT_S, what="another child")
    assert process.poll() is None, bench.log()


def test_a_silent_broker_is_left_before_its_worker_would_count_as_gone() -> None:
    """Until then a worker counts as ready and takes nothing. One that answers in time is not left."""
    settings = Settings()
    with make_celery(settings) as app:
        options = app.conf.broker_transport_options
    answers_s = Transport.brpop_timeout + settings.redis_timeout_s
    noticed_s = Transport.brpop_timeout + 2 * options["health_check_interval"]  # it looks as often as that
    assert answers_s < options["socket_timeout"] and answers_s < noticed_s < settings.worker_ttl_s
