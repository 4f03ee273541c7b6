"""Celery's prefork pool, except that it notices a dead child at once, requeues its jobs, and fetches messages only
while there is a child that takes jobs.

Celery is woken when the child's pipe closes and asks then whether it has ended. The kernel closes the files of an
ending process before it counts as ended, so the answer is mostly "not yet", and Celery asks again up to 5 s later.
"""

from __future__ import annotations

import gc
import heapq
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import structlog
from celery import signals
from celery.concurrency import asynpool, prefork
from kombu.asynchronous import get_event_loop
from kombu.asynchronous.timer import Timer

from jobs.errors import MatmulError
from jobs.fleet.registry import WorkerRegistry
from jobs.memory_tuning import TIDY_EVERY_S, tidy_memory
from jobs.queue import make_ledger
from jobs.redis.client import connect
from jobs.settings import get_settings
from jobs.tracing.export import preload
from kernels.digest import kernels_digest
from worker.device.out_of_service import QUARANTINED, WRONG_PRODUCTS
from worker.process.ended_child import take_back_from_child, worker_id
from worker.process.lease import EXIT_QUARANTINED

LOOK_EVERY_S = 0.05
FORGET_EVERY_S = 1.0

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
        for name in paused:
            queue = self._consumer.app.amqp.queues.select_add(self._consumer.app.amqp.queues[name])
            if self._consumer.task_consumer is not None:
                self._consumer.task_consumer.add_queue(queue)
                self._consumer.task_consumer.consume()

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


def forget_cancelled(timer: Timer) -> None:
    """Celery sets a timer for each message's time limit and cancels it at the message's end. Kombu would keep it until
    its time comes: with the default limit ten minutes of messages, a kilobyte each. To be called by the event loop."""
    entries = timer._queue  # kombu has no public way; changed in place, for the loop holds on to it
    entries[:] = [each for each in entries if not each.entry.canceled]
    heapq.heapify(entries)


@cache
def _registry() -> WorkerRegistry:
    settings = get_settings()
    return WorkerRegistry(connect(settings), prefix=settings.key_prefix)


def look_whether_drained() -> None:
    """Checks whether an operator drained this worker. While Redis is unavailable the state does not change."""
    with suppress(MatmulError):
        consuming.drain(_registry().is_drained(worker_id(get_settings().device, os.getpid())))


class AttentivePool(asynpool.AsynPool):  # type: ignore[misc]
    @property
    def timers(self) -> dict[Callable[[], None], float]:
        return {
            self.maintain_pool: LOOK_EVERY_S,
            self.forget_time_limits: FORGET_EVERY_S,
            look_whether_drained: FORGET_EVERY_S,
            tidy_memory: TIDY_EVERY_S,
        }

    def forget_time_limits(self) -> None:
        """Drops the time limits of finished messages."""
        if loop := get_event_loop():
            forget_cancelled(loop.timer)

    def _join_exited_workers(self, shutdown: bool = False) -> Any:
        """Before Celery clears up after them, and so before it starts others."""
        if ended := [process.exitcode for process in self._pool if process.exitcode is not None]:
            if EXIT_QUARANTINED in ended:
                os.environ[QUARANTINED] = WRONG_PRODUCTS
            consuming.pause()
            take_back_from_child([job.correlation_id for job in self._cache.values()])
        return super()._join_exited_workers(shutdown)

    def on_process_alive(self, pid: int) -> None:
        super().on_process_alive(pid)
        consuming.resume()


class TaskPool(prefork.TaskPool):  # type: ignore[misc]
    Pool = AttentivePool

    def on_start(self) -> None:
        """Creates the objects that all children share before they are forked, and excludes them from the children's
        garbage collection: otherwise this takes a third of a child's start.
        """
        settings = get_settings()
        with connect(settings) as client:
            make_ledger(settings, client)  # its scripts are put together; nothing is sent
            with suppress(MatmulError):
                WorkerRegistry(client, prefix=settings.key_prefix).resume(worker_id(settings.device, os.getpid()))
        kernels_digest()
        preload()
        gc.collect()
        gc.freeze()
        super().on_start()
