"""Chooses a product's queue: that of a live worker that can run it."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.errors import InvalidConfig, NoWorkerForKernel, NoWorkers
from jobs.fleet.workers import WorkerInfo, why_unserved
from kernels.catalog import BY_NAME
from kernels.model.entry.config import ConfigError
from kernels.selection.demands import unmet
from service.bodies.options import MatmulOptions
from service.submit.demands import field_of
from service.submit.plan import AUTO, ProductPlan


def choose_queue(options: MatmulOptions, plan: ProductPlan, workers: Sequence[WorkerInfo]) -> str:
    """A GPU queue if a GPU worker can run it, otherwise a CPU queue. Raises NoWorkers, NoWorkerForKernel,
    InvalidConfig.
    """
    able = [worker for worker in workers if worker.runs_one_of(plan.kernels, plan.problem.dtype)]
    if not able and options.kernel == AUTO:
        # A worker of another version: a kernel that only it knows may be suitable.
        able = [worker for worker in workers if not BY_NAME.keys() >= {*worker.kernels}]
    if able:
        fitting = able if options.kernel == AUTO else _fitting(options, plan, able)
        gpus = [worker for worker in fitting if worker.device.device_class == "gpu"]
        return (gpus or fitting)[0].queue
    if options.kernel == AUTO and not workers:
        raise NoWorkers
    if options.kernel == AUTO and plan.demand:
        kernels = [BY_NAME[name] for worker in workers for name in worker.kernels if name in BY_NAME]
        raise NoWorkerForKernel(
            unmet(plan.demand, kernels, plan.problem, "of the live workers"), field=field_of(plan.demand)
        )
    raise NoWorkerForKernel(_unserved(options, plan, workers), field="kernel")


def _unserved(options: MatmulOptions, plan: ProductPlan, workers: Sequence[WorkerInfo]) -> str:
    served = sorted({name for worker in workers for name in worker.kernels})
    asked, reason, dtype = "a kernel that can do this", None, plan.problem.dtype
    if options.kernel != AUTO:
        asked = f"{options.kernel} for {dtype}" if options.kernel in served else options.kernel
        reason = why_unserved(BY_NAME[options.kernel], workers, dtype)
    nobody = f"No live worker serves {asked}; served now: {', '.join(served) or 'none'}."
    return f"{nobody} {reason}" if reason else nobody


def _fitting(options: MatmulOptions, plan: ProductPlan, able: Sequence[WorkerInfo]) -> Sequence[WorkerInfo]:
    """The workers on whose device the config fits. Raises InvalidConfig with the first one's reason if there are
    none.
    """
    (kernel,) = plan.kernels
    fitting, errors = [], []
    for worker in able:
        try:
            kernel.resolve_config(options.config, plan.problem, worker.device.traits)
            fitting.append(worker)
        except ConfigError as error:
            errors.append(error)
    if not fitting:
        raise InvalidConfig(str(errors[0]), field="config")
    return fitting
