"""Which queue a product goes to: that of a live worker that can run it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock

from jobs.errors import NoWorkerForKernel, NoWorkers, StoreUnavailable
from jobs.workers import WorkerInfo
from service.options import MatmulOptions
from service.plan import AUTO, Plan

MAX_AGE_S = 0.5


class LiveWorkers:
    """The live workers, read at most every half second; a failure to read them holds as long. For worker threads."""

    def __init__(self, read: Callable[[], Sequence[WorkerInfo]]) -> None:
        self._read = read
        self._lock = Lock()
        self._workers: Sequence[WorkerInfo] = ()
        self._error: StoreUnavailable | None = None
        self._read_at = float("-inf")

    def now(self) -> Sequence[WorkerInfo]:
        """Raises StoreUnavailable."""
        with self._lock:
            if time.monotonic() - self._read_at > MAX_AGE_S:
                self._refresh()
            if self._error is not None:
                raise StoreUnavailable from self._error
            return self._workers

    def _refresh(self) -> None:
        try:
            self._workers, self._error = self._read(), None
        except StoreUnavailable as error:
            self._error = error
        self._read_at = time.monotonic()


def choose_queue(options: MatmulOptions, plan: Plan, workers: Sequence[WorkerInfo]) -> str:
    """A GPU's queue where one can run it, else a CPU's. Raises NoWorkers, NoWorkerForKernel."""
    able = [worker for worker in workers if _can_run(worker, plan)]
    if able:
        gpus = [worker for worker in able if worker.device.device_class == "gpu"]
        return (gpus or able)[0].queue
    if options.kernel == AUTO and not workers:
        raise NoWorkers
    served = ", ".join(sorted({name for worker in workers for name in worker.kernels})) or "none"
    asked = "a kernel that can do this" if options.kernel == AUTO else options.kernel
    raise NoWorkerForKernel(f"No live worker serves {asked}; served now: {served}.", field="kernel")


def _can_run(worker: WorkerInfo, plan: Plan) -> bool:
    traits = worker.device.traits
    return any(kernel.name in worker.kernels and kernel.unsupported_because(traits) is None for kernel in plan.kernels)
