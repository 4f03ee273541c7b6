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
from worker.pool.consuming import Consuming


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
