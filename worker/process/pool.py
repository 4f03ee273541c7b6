"""Celery's prefork pool, but that it sees a dead child at once, and sees to its jobs.

Celery is woken when the child's pipe closes and asks then whether it has ended. The kernel closes the files of an
ending process before it counts as ended, so the answer is mostly "not yet", and Celery asks again up to 5 s later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery.concurrency import asynpool, prefork

from worker.process.ended_child import take_back_from_child

LOOK_EVERY_S = 0.05


class AttentivePool(asynpool.AsynPool):  # type: ignore[misc]  # Celery has no types
    @property
    def timers(self) -> dict[Callable[[], None], float]:
        return {self.maintain_pool: LOOK_EVERY_S}

    def _join_exited_workers(self, shutdown: bool = False) -> Any:
        """Before Celery clears up after them, and so before it starts others."""
        if ended := {process.pid for process in self._pool if process.exitcode is not None}:
            accepted = (job for job in self._cache.values() if not ended.isdisjoint(job.worker_pids()))
            take_back_from_child([job.correlation_id for job in accepted])
        return super()._join_exited_workers(shutdown)


class TaskPool(prefork.TaskPool):  # type: ignore[misc]
    Pool = AttentivePool
