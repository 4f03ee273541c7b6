"""Times several ways to compute one product on a GPU, alternately: so clock and temperature are the same for all."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.recorded import record_rows
from jobs.settings import Settings
from kernels.catalog import BY_NAME
from kernels.model.kernel import CudaKernel
from worker.cpu.environment import dated_environment

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet
    from worker.cuda.bench.sampler import Sampler
    from worker.cuda.runner import CudaRunner

Launch = Callable[["OperandSet"], None]  # puts a product on the current stream
PACKAGES = ("cupy-cuda13x", "numpy")


def cuda_kernel(name: str) -> CudaKernel:
    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    return kernel


def record(out: Path, device: str, measured: Iterable[Mapping[str, Any]]) -> None:
    """Writes the record row by row."""
    record_rows(out, {"environment": dated_environment(*PACKAGES), "device": device}, measured)


def run(description: str | None, rows: Callable[[CudaRunner], Iterable[Mapping[str, Any]]]) -> None:
    """The main function of a script that measures on the first GPU: its argument and its record."""
    _run(_parser(description), lambda runner, _: rows(runner))


def run_by_size(
    description: str | None,
    sizes: Sequence[int],
    rows: Callable[[CudaRunner, Sequence[int]], Iterable[Mapping[str, Any]]],
) -> None:
    """`run` for a script that measures products of some sizes."""
    parser = _parser(description)
    parser.add_argument("--sizes", type=int, nargs="*", default=sizes)
    _run(parser, lambda runner, arguments: rows(runner, arguments.sizes))


def _parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    return parser


def _run(
    parser: argparse.ArgumentParser, rows: Callable[[CudaRunner, argparse.Namespace], Iterable[Mapping[str, Any]]]
) -> None:
    arguments = parser.parse_args()
    from worker.cuda.runner import CudaRunner

    runner = CudaRunner(Settings(device="gpu:0"))
    record(arguments.out, runner.device.name, rows(runner, arguments))


def sampler_of(runner: CudaRunner) -> Sampler:
    from worker.cuda.bench.sampler import Sampler

    device = runner.device
    return Sampler(runner.compiler, device.l2_bytes, device.multiprocessors or 1)


def median_ms(sampler: Sampler, launches: Sequence[Launch], at: OperandSet, count: int) -> list[float]:
    """The median of `count` samples of each launch, in milliseconds, with a cold cache."""
    import cupy

    for launch in launches:
        launch(at)
    cupy.cuda.get_current_stream().synchronize()
    rounds = [[_time_us(sampler, launch, at) for launch in launches] for _ in range(count)]
    return [median(times) / 1e3 for times in zip(*rounds, strict=True)]


def times_ms(sampler: Sampler, launches: Mapping[str, Launch], at: OperandSet, count: int) -> dict[str, float]:
    """`median_ms`, by name."""
    return dict(zip(launches, median_ms(sampler, list(launches.values()), at, count), strict=True))


def rounded(times: Mapping[str, float]) -> dict[str, float]:
    """Milliseconds as records keep them, to ten nanoseconds."""
    return {name: round(ms, 5) for name, ms in times.items()}


def _time_us(sampler: Sampler, launch: Launch, at: OperandSet) -> float:
    return sampler.sample(lambda _: launch(at), 1, "cold").time_us
