"""Whether a worker's parent fetches messages: it does while a child takes jobs and no operator drained the worker."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from typing import Any

import structlog
from celery import signals

from jobs.errors import MatmulError
from jobs.fleet.registry import WorkerRegistry
from jobs.redis.client import connect
from jobs.settings import get_settings
from worker.device.out_of_service import QUARANTINED
from worker.process.ended_child import worker_id
from worker.queues.stopping import is_stopping

log = structlog.get_logger(__name__)


class Consuming:
    """Whether messages are fetched. For Celery's event loop."""

    def __init__(self) -> None:
        self._consumer: Any = None
        self._paused: list[str] = []  # queues
        self.is_drained = False  # by an operator

    def begin(self, consumer: Any) -> None:
        self._consumer = consumer

    def pause(self) -> None:
        """Others get the messages. One that is on its way here by now is put back by Celery, or by the sweeper."""
        if self._consumer is None:
            return
        for name in [*self._consumer.app.amqp.queues.consume_from]:
            self._paused.append(name)
            self._consumer.app.amqp.queues.deselect(name)
            if self._consumer.task_consumer is not None:  # else there is no connection now
                self._consumer.task_consumer.cancel_by_queue(name)

    def resume(self) -> None:
        if self.is_drained or QUARANTINED in os.environ:
            return
        paused, self._paused = self._paused, []
        queues = self._consumer.app.amqp.queues
        selected = [queues.select_add(queues[name]) for name in paused]
        if (consumer := self._consumer.task_consumer) is None:
            return
        consumer.auto_declare = False  # which asks Redis and may fail; a list needs no declaring
        for queue in selected:
            consumer.add_queue(queue)
        consumer.consume()

    def drain(self, is_drained: bool) -> None:
        """Stops or resumes taking jobs. It holds until the next call, whatever children start and end."""
        if self._consumer is None or is_drained == self.is_drained:
            return
        log.info("drained: this worker takes no more jobs" if is_drained else "this worker takes jobs again")
        self.is_drained = is_drained
        if is_drained:
            self.pause()
        else:
            self.resume()


consuming = Consuming()


@signals.worker_ready.connect  # type: ignore[untyped-decorator]  # Celery has no types
def _begin(sender: Any, **_: Any) -> None:
    consuming.begin(sender)


@cache
def _registry() -> WorkerRegistry:
    settings = get_settings()
    return WorkerRegistry(connect(settings), prefix=settings.key_prefix)


def look_whether_drained() -> None:
    """Checks whether an operator drained this worker. The state does not change while Redis is unavailable, nor once
    the worker stops: its child takes it off the register."""
    if is_stopping():
        return
    with suppress(MatmulError):
        consuming.drain(_registry().is_drained(worker_id(get_settings().device, os.getpid())))
