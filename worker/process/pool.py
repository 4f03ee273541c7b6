"""Celery's prefork pool, but that it sees a dead child at once.

Celery is woken when the child's pipe closes and asks then whether it has ended. The kernel closes the files of an
ending process before it counts as ended, so the answer is mostly "not yet", and Celery asks again up to 5 s later.
"""

from __future__ import annotations

from collections.abc import Callable

from celery.concurrency import asynpool, prefork

LOOK_EVERY_S = 0.1


class AttentivePool(asynpool.AsynPool):  # type: ignore[misc]  # Celery has no types
    @property
    def timers(self) -> dict[Callable[[], None], float]:
        return {self.maintain_pool: LOOK_EVERY_S}


class TaskPool(prefork.TaskPool):  # type: ignore[misc]
    Pool = AttentivePool
