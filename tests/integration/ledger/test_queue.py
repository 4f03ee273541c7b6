"""Messages: what is sent, and a real Celery worker that gets them."""

from __future__ import annotations

import base64
import json
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
from kombu import pools
from kombu.entity import Queue

from jobs.ledger.interface import Ledger
from jobs.queue import RUN_TASK, WORKER_ARGUMENTS, broker_prefix, make_celery, make_ledger, waiting_messages
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from tests.support.ledger.ledgers import new_job, redis_bench, settings_for
from tests.support.workers.trivial_worker import NOTES


def submit(ledger: Ledger, name: str, *, queue: str = "cpu", timeout_s: float = 600.0) -> None:
    """A job of that id."""
    new = new_job(queue=queue, timeout_s=timeout_s).model_copy(update={"id": name})
    ledger.submit(new, max_queued=999, max_queued_per_owner=999)


# ---- sending ----
def test_messages_wait_in_the_list_that_is_counted(valkey: EmbeddedServer, key_prefix: str) -> None:
    settings = settings_for(valkey, key_prefix)
    with connect(settings) as client:
        ledger = make_ledger(settings, client)
        assert waiting_messages(client, settings, "cpu") == 0
        submit(ledger, "job_1")
        submit(ledger, "job_2")
        submit(ledger, "job_3", queue="gpu")
        assert waiting_messages(client, settings, "cpu") == 2
        assert waiting_messages(client, settings, "gpu") == 1


def test_a_message_is_the_one_that_celery_would_send(valkey: EmbeddedServer, key_prefix: str) -> None:
    """But for who sent it, and for how its body is written."""
    settings = settings_for(valkey, key_prefix)
    with connect(settings) as client, make_celery(settings) as app:
        submit(make_ledger(settings, client), "job_1", timeout_s=2.5)
        app.send_task(
            RUN_TASK,
            args=("job_1", 1),
            task_id="job_1.1",
            queue=Queue("cpu"),  # type: ignore[no-untyped-call]
            soft_time_limit=2.5,
            time_limit=12.5,
            ignore_result=True,
            argsrepr="job_1",
            kwargsrepr="",
        )
        theirs, ours = (json.loads(text) for text in client.lrange(f"{broker_prefix(settings)}cpu", 0, -1))
        assert json.loads(ours["body"]) == json.loads(base64.b64decode(theirs["body"]))
        for name in ("content-type", "content-encoding"):
            assert ours[name] == theirs[name]
        for name in ("id", "root_id", "task", "timelimit", "retries", "eta", "expires", "ignore_result", "lang"):
            assert ours["headers"][name] == theirs["headers"][name], name
        for name in ("correlation_id", "delivery_mode", "delivery_info", "priority"):
            assert ours["properties"][name] == theirs["properties"][name], name
        assert set(ours["headers"]) == set(theirs["headers"])
    pools.reset()  # type: ignore[no-untyped-call]  # kombu's keep their connections beyond the app


def test_every_message_has_a_tag_of_its_own(valkey: EmbeddedServer, key_prefix: str) -> None:
    """The consumer tells messages apart by it, also two of the same attempt."""
    with redis_bench(valkey, key_prefix) as bench:
        first = bench.submit()
        bench.ledger.republish(first)
        texts: Any = bench.clock.client.lrange(f"{key_prefix}broker:cpu", 0, -1) if bench.clock.client else []
        assert len({json.loads(text)["properties"]["delivery_tag"] for text in texts}) == 2


# ---- a real worker ----
@dataclass
class Worker:
    """A worker on a server of its own; `tests/support/workers/trivial_worker.py` says what its task does."""

    server: EmbeddedServer
    settings: Settings
    ledger: Ledger
    client: redis.Redis
    log: Path

    def publish(self, *job_ids: str, timeout_s: float = 600.0) -> None:
        for job_id in job_ids:
            submit(self.ledger, job_id, timeout_s=timeout_s)

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


def wait_until(condition: Callable[[], bool], deadline_s: float = 60.0) -> None:
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
        with connect(settings, timeout_s=5.0) as client:
            yield Worker(server, settings, make_ledger(settings, client), client, log_path)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        server.stop()


def test_a_worker_gets_the_job_id_and_the_attempt(worker: Worker) -> None:
    worker.publish("echo")
    worker.process_of("echo")
    first: Any = worker.client.lindex(f"{worker.settings.key_prefix}{NOTES}", 0)
    assert first.startswith(b"echo 1 ")


def test_a_job_over_its_time_limit_ends_and_the_next_one_runs(worker: Worker) -> None:
    worker.publish("hang", timeout_s=2.0)  # long enough to note that it runs
    worker.publish("after-hang")
    assert worker.process_of("after-hang") == worker.process_of("hang")


def test_a_killed_child_is_replaced(worker: Worker) -> None:
    worker.publish("hang-killed", "after-killed")
    child = worker.process_of("hang-killed")
    assert worker.waiting() == 1  # a busy worker leaves the next message to others
    os.kill(child, signal.SIGKILL)
    assert worker.process_of("after-killed") != child


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
    worker.publish("hang-restart", timeout_s=2.0)
    worker.process_of("hang-restart")
    worker.server.kill()
    wait_until(lambda: b"Cannot connect" in worker.log.read_bytes())  # the job has ended, and was noticed to
    worker.server.start()
    worker.publish("restarted")
    wait_until(lambda: bool(worker.processes("restarted")), deadline_s=20)


def test_a_worker_leaves_no_message_behind_in_redis(worker: Worker) -> None:
    worker.publish("last")
    worker.process_of("last")

    def left() -> list[bytes]:
        keys: Any = worker.client.keys(f"{worker.settings.key_prefix}broker:*")
        return [key for key in keys if b"_kombu.binding" not in key]

    wait_until(lambda: not left())  # its task notes that it runs before it ends
