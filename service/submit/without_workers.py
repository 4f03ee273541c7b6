"""Products for which no worker is live: which of them wait in a queue until one is started."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.errors import MatmulError, NoWorkers
from jobs.fleet.workers import WorkerInfo
from jobs.settings import Settings
from service.process.fleet import Fleet
from service.submit.plan import ProductPlan

HINT = " A job waits for one where its request says `Prefer: respond-async`."


def waiting_queue(plan: ProductPlan, workers: Sequence[WorkerInfo], settings: Settings, *, asked: bool) -> str | None:
    """That of a device class which has a kernel for it and no live worker; None where the product is to be refused.

    `asked`: the caller said `Prefer: respond-async`, which counts where no worker is there at all.
    """
    mode = settings.queue_without_workers
    if mode == "never" or (mode == "asked" and (workers or not asked)):
        return None
    absent = {kernel.device_class for kernel in plan.kernels} - {worker.device.device_class for worker in workers}
    first = settings.class_without_workers
    return first if first in absent else next(iter(absent), None)


def explained(refusal: MatmulError, fleet: Fleet, settings: Settings) -> MatmulError:
    """The same, with what a caller can do about it."""
    told = fleet.explained(refusal)
    if told is refusal and type(refusal) is NoWorkers and settings.queue_without_workers == "asked":
        return NoWorkers(refusal.detail + HINT)
    return told
