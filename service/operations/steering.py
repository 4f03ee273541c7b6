"""Queues and workers for operators: state, pause and drain. For worker threads."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from jobs.base import Strict
from jobs.errors import NotFound
from jobs.queue import QUEUES
from service.context import Context

Switch = Literal["pause", "resume"]


class QueueView(Strict):
    """A queue and its state."""

    name: str = Field(description="Its name: a device class, or `bench-…` for benchmarks of a model.", examples=["cpu"])
    waiting: int = Field(description="Jobs that wait.", examples=[0])
    oldest_age_s: float | None = Field(description="How long the first of them has waited; null where none waits.")
    paused: bool = Field(description="Whether none of its jobs is started until it is resumed.")
    workers: tuple[str, ...] = Field(description="Live workers that take jobs from it.", examples=[["host/cpu/1"]])


class QueueList(Strict):
    """All queues."""

    paused: bool = Field(description="Whether the whole service is paused.")
    queues: tuple[QueueView, ...] = Field(description="By name.")


class WorkerSwitch(Strict):
    """A worker after it was drained or resumed."""

    id: str = Field(description="The worker's name.", examples=["host/cpu/1"])
    drained: bool = Field(description="Whether it is to end its jobs and take no more.")
    job: str | None = Field(description="Job it runs now.")
    seen_at: datetime = Field(description="Its last heartbeat (UTC).")


def queues_of(context: Context) -> QueueList:
    """Raises StoreUnavailable."""
    serving = [worker for worker in context.fleet.all() if worker.serves]
    taken = {queue for worker in serving for queue in (worker.queue, worker.bench_queue) if queue}
    alone = context.pause.queues()
    depths = context.ledger.depths(sorted({*QUEUES, *context.ledger.queues(), *taken, *alone}))
    views = (
        QueueView(
            name=name,
            waiting=depth.waiting,
            oldest_age_s=depth.oldest_age_s,
            paused=name in alone,
            workers=tuple(worker.id for worker in serving if name in (worker.queue, worker.bench_queue)),
        )
        for name, depth in depths.items()
    )
    return QueueList(paused=context.pause.is_on(), queues=tuple(views))


def queue_of(context: Context, name: str) -> QueueView:
    """Raises NotFound, StoreUnavailable."""
    known = {queue.name: queue for queue in queues_of(context).queues}
    if name not in known:
        raise NotFound(f"There is no queue {name[:40]!a}; there are {', '.join(known)}.")
    return known[name]


def switch_queue(context: Context, name: str, how: Switch) -> QueueView:
    """Raises NotFound, StoreUnavailable."""
    queue_of(context, name)
    if how == "pause":
        context.pause.begin(name)
    else:
        context.pause.end(name)
    return queue_of(context, name)


def switch_service(context: Context, how: Switch) -> QueueList:
    """Raises StoreUnavailable."""
    if how == "pause":
        context.pause.begin()
    else:
        context.pause.end()
    return queues_of(context)


def worker_of(context: Context, worker_id: str) -> WorkerSwitch:
    """Raises NotFound, StoreUnavailable."""
    found = next((worker for worker in context.fleet.all() if worker.id == worker_id), None)
    if found is None:
        raise NotFound(f"No worker {worker_id[:100]!a} is live; GET /v1/devices lists those there are.")
    is_drained = context.registry.is_drained(worker_id)
    return WorkerSwitch(id=worker_id, drained=is_drained, job=found.job, seen_at=found.seen_at)


def drain_worker(context: Context, worker_id: str, *, is_drained: bool) -> WorkerSwitch:
    """Drains a worker, which notices it within about a second. Raises NotFound, StoreUnavailable."""
    found = worker_of(context, worker_id)
    if is_drained:
        context.registry.drain(worker_id)
    else:
        context.registry.resume(worker_id)
    return found.model_copy(update={"drained": is_drained})
