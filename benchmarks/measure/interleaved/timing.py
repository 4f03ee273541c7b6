"""Times several ways to make one product on a GPU by turns: the device's clock and heat are then the same for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.recorded import write_rows
from kernels.catalog import BY_NAME
from kernels.model.kernel import CudaKernel
from worker.cpu.environment import dated_environment

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet
    from worker.cuda.bench.sampler import Sampler
    from worker.cuda.runner import CudaRunner

Put = Callable[["OperandSet"], None]  # puts a product on the current stream


PACKAGES = ("cupy-cuda13x", "numpy")


def cuda_kernel(name: str) -> CudaKernel:
    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    return kernel


def record(out: Path, device: str, measured: Iterable[Mapping[str, Any]]) -> None:
    """Writes the rows as they come: a run that is cut off leaves what it has."""
    about, rows = {"environment": dated_environment(*PACKAGES), "device": device}, []
    for row in measured:
        rows.append(row)
        print(row, flush=True)
        write_rows(out, about, rows)


def sampler_of(runner: CudaRunner) -> Sampler:
    from worker.cuda.bench.sampler import Sampler

    device = runner.device
    return Sampler(runner.compiler, device.l2_bytes, device.multiprocessors or 1)


def median_ms(sampler: Sampler, puts: Sequence[Put], at: OperandSet, count: int) -> list[float]:
    """Of each way, from so many samples with a cold cache."""
    import cupy

    for put in puts:
        put(at)
    cupy.cuda.get_current_stream().synchronize()
    rounds = [[_time_us(sampler, put, at) for put in puts] for _ in range(count)]
    return [median(times) / 1e3 for times in zip(*rounds, strict=True)]


def _time_us(sampler: Sampler, put: Put, at: OperandSet) -> float:
    return sampler.sample(lambda _: put(at), 1, "cold").time_us
