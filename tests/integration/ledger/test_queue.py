"""Messages: what is sent, how fast a failure shows, and a real Celery worker that gets them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery

from jobs.errors import StoreFull, StoreUnavailable
from jobs.ledger.interface import JobMessage
from jobs.queue import WORKER_ARGUMENTS, make_celery, publish, waiting_messages
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from tests.support.ledger.ledgers import settings_for
from tests.support.workers.trivial_worker import NOTES


def message(job_id: str, attempt: int = 1, *, timeout_s: float = 600.0) -> JobMessage:
    return JobMessage(job_id, attempt, "cpu", 1, timeout_s)


# ---- publishing ----
def test_messages_wait_in_the_list_that_is_counted(valkey: EmbeddedServer, key_prefix: str) -> None:
    settings = settings_for(valkey, key_prefix)
    with make_celery(settings) as app, valkey.client() as client:
        assert waiting_messages(client, settings, "cpu") == 0
        publish(app, message("job_1"))
        publish(app, message("job_2"))
        publish(app, JobMessage("job_3", 1, "gpu", 1, 600.0))
        assert waiting_messages(client, settings, "cpu") == 2
        assert waiting_messages(client, settings, "gpu") == 1
        keys: Any = client.keys(f"{key_prefix}*")
        assert all(key.startswith(f"{key_prefix}broker:".encode()) for key in keys)


@pytest.mark.parametrize("warm", [True, False])
def test_a_publisher_finds_out_within_a_second(own_server: EmbeddedServer, warm: bool) -> None:
    with make_celery(settings_for(own_server, "q:")) as app:
        if warm:
            publish(app, message("job_1"))
        os.kill(own_server.pid, signal.SIGSTOP)
        assert seconds_to_fail(app) < 1.2
        os.kill(own_server.pid, signal.SIGCONT)
        publish(app, message("job_2"))
        own_server.kill()
        assert seconds_to_fail(app) < 1.2
        own_server.start()
        publish(app, message("job_3"))


def seconds_to_fail(app: Celery) -> float:
    started = time.monotonic()
    with pytest.raises(StoreUnavailable):
        publish(app, message("job_4"))
    return time.monotonic() - started


def test_a_full_redis_takes_no_message(own_server: EmbeddedServer) -> None:
    with make_celery(settings_for(own_server, "q:")) as app, own_server.client() as client:
        publish(app, message("job_1"))
        client.config_set("maxmemory", "1mb")
        with pytest.raises(StoreFull):
            publish(app, message("job_2"))
        client.config_set("maxmemory", "0")
        publish(app, message("job_3"))


# ---- a real worker ----
@dataclass
class Worker:
    """A worker on a server of its own; `tests/support/workers/trivial_worker.py` says what its task does."""

    server: EmbeddedServer
    settings: Settings
    app: Celery
    client: redis.Redis
    log: Path

    def publish(self, *job_ids: str, timeout_s: float = 600.0) -> None:
        for job_id in job_ids:
            publish(self.app, message(job_id, timeout_s=timeout_s))

    def processes(self, job_id: str) -> list[int]:
        """The process of each run of this job so far."""
        found: Any = self.client.lrange(f"{self.settings.key_prefix}{NOTES}", 0, -1)
        notes = [line.decode().split() for line in found]
        return [int(pid) for noted, _, pid in notes if noted == job_id]

    def process_of(self, job_id: str) -> int:
        """Waits until the job has run; which process ran it."""
        wait_until(lambda: bool(self.processes(job_id)))
        return self.processes(job_id)[0]

    def waiting(self) -> int:
        return waiting_messages(self.client, self.settings, "cpu")


def wait_until(condition: Callable[[], bool], deadline_s: float = 20.0) -> None:
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    directory = tmp_path_factory.mktemp("worker")
    server = EmbeddedServer(directory / "redis")
    server.start()
    settings = settings_for(server, "worker:")
    environment = os.environ | {"MATMUL_REDIS_URL": server.url, "MATMUL_KEY_PREFIX": settings.key_prefix}
    command = ["celery", "-A", "tests.support.workers.trivial_worker", "worker", "-Q", "cpu", *WORKER_ARGUMENTS]
    log_path = directory / "worker.log"
    with open(log_path, "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        with make_celery(settings) as app, server.client() as client:
            yield Worker(server, settings, app, client, log_path)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        server.stop()


def test_a_worker_gets_the_job_id_and_the_attempt(worker: Worker) -> None:
    publish(worker.app, message("echo", attempt=7))
    worker.process_of("echo")
    first: Any = worker.client.lindex(f"{worker.settings.key_prefix}{NOTES}", 0)
    assert first.startswith(b"echo 7 ")


def test_a_job_over_its_time_limit_ends_and_the_next_one_runs(worker: Worker) -> None:
    worker.publish("hang", timeout_s=0.2)
    worker.publish("after-hang")
    assert worker.process_of("after-hang") == worker.process_of("hang")


def test_a_killed_child_is_replaced_and_its_message_is_not_run_again(worker: Worker) -> None:
    worker.publish("hang-killed", "after-killed")
    child = worker.process_of("hang-killed")
    assert worker.waiting() == 1  # a busy worker leaves the next message to others
    os.kill(child, signal.SIGKILL)
    assert worker.process_of("after-killed") != child
    assert len(worker.processes("hang-killed")) == 1


def test_a_worker_that_meets_a_full_redis_goes_on(worker: Worker) -> None:
    worker.publish("hang-full", "met-full")
    child = worker.process_of("hang-full")
    worker.client.config_set("maxmemory", "1mb")
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: worker.waiting() == 0)
    worker.client.config_set("maxmemory", "0")
    worker.publish("roomy")
    worker.process_of("roomy")


def test_a_worker_finds_a_restarted_redis_within_a_few_seconds(worker: Worker) -> None:
    """Also where its job ends while Redis is down: that message's end can then not be told to anyone."""
    worker.publish("hang-restart", timeout_s=0.3)
    worker.process_of("hang-restart")
    worker.server.kill()
    wait_until(lambda: b"Cannot connect" in worker.log.read_bytes())  # the job has ended, and was noticed to
    worker.server.start()
    worker.publish("restarted")
    wait_until(lambda: bool(worker.processes("restarted")), deadline_s=5)


def test_a_worker_leaves_no_message_behind_in_redis(worker: Worker) -> None:
    worker.publish("last")
    worker.process_of("last")
    keys: Any = worker.client.keys(f"{worker.settings.key_prefix}broker:*")
    assert {key for key in keys if b"_kombu.binding" not in key} == set()
