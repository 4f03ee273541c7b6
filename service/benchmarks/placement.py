"""Chooses the live worker whose device model a benchmark is for. The benchmark waits in the queue of that model, so
that all of it is measured on one model, even if another worker continues it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.benchmarks.spec import BenchmarkSpec
from jobs.errors import MatmulError, NoWorkerForDevice, NoWorkerForKernel, NoWorkers
from jobs.fleet.workers import WorkerInfo
from service.benchmarks.body import BenchmarkInput, named_kernels
from service.problems import shown


@dataclass(frozen=True, slots=True)
class Placed:
    """A benchmark and the worker whose model it is for."""

    spec: BenchmarkSpec
    worker: WorkerInfo


def place(asked: BenchmarkInput, workers: Sequence[WorkerInfo]) -> Placed:
    """Chooses a GPU worker that serves the named kernels, otherwise a CPU worker. Raises NoWorkers, NoWorkerForDevice,
    NoWorkerForKernel.
    """
    live = [worker for worker in workers if worker.bench_queue]
    suited = _on_device(asked.forms["gpu"].device, live)
    if not suited:
        names = named_kernels(asked.forms["cpu"])
        raise NoWorkerForKernel(_unserved(names, live), field="kernels") if names else NoWorkers
    refusals = []
    for worker in suited:
        refusal = _refusal_of(asked, worker, live)
        if refusal is None:
            return Placed(asked.forms[worker.device.device_class], worker)
        refusals.append(refusal)
    raise refusals[0]


def _on_device(name: str, live: Sequence[WorkerInfo]) -> Sequence[WorkerInfo]:
    """The workers on the requested device, GPUs first. Raises NoWorkerForDevice if there are none."""
    wanted = name.strip().lower()
    suited = sorted(
        (worker for worker in live if wanted == "any" or wanted in _names(worker)),
        key=lambda worker: (worker.device.device_class == "cpu", worker.id),
    )
    if live and not suited:
        there = ", ".join(sorted({worker.device.name for worker in live}))
        raise NoWorkerForDevice(f"No live worker runs on {shown(name)}; there are: {there}.", field="device")
    for worker in suited:
        if worker.device.uuid is not None and wanted == worker.device.uuid.lower():
            _check_alone(worker, live)
    return suited


def _names(worker: WorkerInfo) -> set[str]:
    device = worker.device
    return {device.device_class, device.name.lower(), (device.uuid or device.name).lower()}


def _check_alone(worker: WorkerInfo, live: Sequence[WorkerInfo]) -> None:
    """Raises NoWorkerForDevice if the request names one of several GPUs of a model: queues are per model."""
    alike = sum(other.bench_queue == worker.bench_queue for other in live)
    if alike > 1:
        raise NoWorkerForDevice(
            f"{alike} workers run on {worker.device.name}, and any of them may take a benchmark for that model; "
            "name the model, for a single one cannot be chosen.",
            field="device",
        )


def _refusal_of(asked: BenchmarkInput, worker: WorkerInfo, live: Sequence[WorkerInfo]) -> MatmulError | None:
    """The error if a named kernel has no live worker, or none of the named kernels is served by this one; kernels not
    served here are skipped.
    """
    names = named_kernels(asked.forms[worker.device.device_class])
    served = {name for other in live for name in other.kernels}
    missing = [name for name in names if name not in served]
    if missing and asked.names_kernels:
        return NoWorkerForKernel(_unserved(missing, live), field="kernels")
    if names and not set(names) & set(worker.kernels):
        return NoWorkerForKernel(f"{worker.device.name} runs none of {', '.join(names)}.", field="kernels")
    return None


def _unserved(names: Sequence[str], live: Sequence[WorkerInfo]) -> str:
    served = ", ".join(sorted({name for worker in live for name in worker.kernels})) or "none"
    return f"No live worker serves {', '.join(names)}; served now: {served}."
