"""A worker's parent that stops and resumes fetching messages."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from kombu.connection import Connection

from jobs.queue import QUEUES, make_celery
from jobs.settings import Settings
from worker.pool import consuming as module
from worker.pool.consuming import Consuming, look_whether_drained
from worker.queues import stopping


@pytest.fixture
def worker() -> Iterator[Any]:
    """What Celery hands over, with a broker in this process."""
    with make_celery(Settings()) as app, Connection("memory://") as connection:  # type: ignore[no-untyped-call]
        yield SimpleNamespace(app=app, task_consumer=app.amqp.TaskConsumer(connection))


def fetched(worker: Any) -> list[str]:
    return [name for name in QUEUES if worker.task_consumer.consuming_from(name)]


def test_all_queues_are_fetched_from_again_though_the_broker_refuses(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a worker that is ready would take no jobs of one for as long as it lives."""
    consuming = Consuming()
    consuming.begin(worker)
    worker.task_consumer.consume()
    consuming.pause()
    assert fetched(worker) == [] == list(worker.app.amqp.queues.consume_from)

    def refuse(*_: object) -> int:
        raise redis.ResponseError("BUSY")

    monkeypatch.setattr(worker.task_consumer.channel, "_size", refuse)
    consuming.resume()
    assert fetched(worker) == list(worker.app.amqp.queues.consume_from) == list(QUEUES)


@pytest.mark.parametrize("stops", [False, True])
def test_a_drained_worker_that_stops_stays_drained(stops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its child takes it off the register, and nobody is drained that is not there."""
    registry = SimpleNamespace(is_drained=lambda _: False)
    drained: list[bool] = []
    monkeypatch.setattr(stopping, "_stopping", bytearray([stops]))
    monkeypatch.setattr(module, "_registry", lambda: registry)
    monkeypatch.setattr(module.consuming, "drain", drained.append)
    look_whether_drained()
    assert drained == ([] if stops else [False])
