"""Decides which products wait in a queue when no worker is live for them."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.errors import MatmulError, NoWorkers
from jobs.fleet.workers import WorkerInfo
from jobs.settings import Settings
from service.api_process.fleet import Fleet
from service.submit.plan import ProductPlan

OR_WAIT = "No worker is running; try again in a moment, or send `Prefer: respond-async`, so that the job waits for one."


def waiting_queue(plan: ProductPlan, workers: Sequence[WorkerInfo], settings: Settings, *, asked: bool) -> str | None:
    """The queue of a device class that has a suitable kernel but no live worker; None if the product is to be refused.
    `asked`: the request has `Prefer: respond-async`, which matters only if there are no workers at all.
    """
    mode = settings.queue_without_workers
    if mode == "never" or (mode == "asked" and (workers or not asked)):
        return None
    absent = {kernel.device_class for kernel in plan.kernels} - {worker.device.device_class for worker in workers}
    first = settings.class_without_workers
    return first if first in absent else next(iter(absent), None)


def explained(refusal: MatmulError, fleet: Fleet, settings: Settings, *, may_ask: bool) -> MatmulError:
    """The refusal, with what the caller can do. `may_ask`: such a request may have `Prefer: respond-async`."""
    explained = fleet.explained(refusal)
    if may_ask and explained is refusal and type(refusal) is NoWorkers and settings.queue_without_workers == "asked":
        return NoWorkers(OR_WAIT)
    return explained
