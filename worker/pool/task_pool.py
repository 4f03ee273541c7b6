"""Celery's prefork pool, except that it notices a dead child at once, requeues its jobs, and fetches messages only
while there is a child that takes jobs. It ends a child whose threads do not run.

Celery is woken when the child's pipe closes and asks then whether it has ended. The kernel closes the files of an
ending process before it counts as ended, so the answer is mostly "not yet", and Celery asks again up to 5 s later.
"""

from __future__ import annotations

import gc
import heapq
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog
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
from worker.pool.consuming import consuming, look_whether_drained
from worker.process.ended_child import take_back_from_child, worker_id
from worker.process.lease import EXIT_QUARANTINED
from worker.process.signs_of_life import GIVE_EVERY_S, LOOK_EVERY_S, parent_signs, signs_of_life

MAINTAIN_EVERY_S = 0.05
FORGET_EVERY_S = 1.0

log = structlog.get_logger(__name__)


def forget_cancelled(timer: Timer) -> None:
    """Celery sets a timer for each message's time limit and cancels it at the message's end. Kombu would keep it until
    its time comes: with the default limit ten minutes of messages, a kilobyte each. To be called by the event loop."""
    entries = timer._queue  # kombu has no public way; changed in place, for the loop holds on to it
    entries[:] = [each for each in entries if not each.entry.canceled]
    heapq.heapify(entries)


class AttentivePool(asynpool.AsynPool):  # type: ignore[misc]
    @property
    def timers(self) -> dict[Callable[[], None], float]:
        return {
            self.maintain_pool: MAINTAIN_EVERY_S,
            self.forget_time_limits: FORGET_EVERY_S,
            look_whether_drained: FORGET_EVERY_S,
            self.end_stopped_children: LOOK_EVERY_S,
            parent_signs.give: GIVE_EVERY_S,
            tidy_memory: TIDY_EVERY_S,
        }

    def forget_time_limits(self) -> None:
        """Drops the time limits of finished messages."""
        if loop := get_event_loop():
            forget_cancelled(loop.timer)

    def end_stopped_children(self) -> None:
        """Ends a child whose threads do not run; its jobs are requeued as those of any dead child."""
        if not signs_of_life.has_stopped(get_settings().lease_s):
            return
        for process in [each for each in self._pool if each.exitcode is None]:
            log.error("the process that computes does not run; it is ended", pid=process.pid)
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    def _join_exited_workers(self, shutdown: bool = False) -> Any:
        """Before Celery clears up after them, and so before it starts others."""
        if ended := [process.exitcode for process in self._pool if process.exitcode is not None]:
            if EXIT_QUARANTINED in ended:
                os.environ[QUARANTINED] = WRONG_PRODUCTS
            consuming.pause()
            signs_of_life.forget()
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
        parent_signs.give()  # so that a child notices, too, that this process is stopped before its event loop runs
        super().on_start()

    def did_start_ok(self) -> bool:
        """Celery asks once it is connected, and ends the worker if its first child has ended by then, as where Redis is
        away for a minute. Another one is started instead, as after any other death."""
        return True
