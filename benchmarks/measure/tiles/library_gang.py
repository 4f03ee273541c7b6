"""NVIDIA's libraries on several GPUs of one host, for docs/scaling.md.

    python -m benchmarks.measure.tiles.library_gang --out benchmarks/results/h200x2_library_gang.json

Resident: each GPU has its part of all matrices, and cuBLASMp gathers A and multiplies, compared with cuBLAS on one GPU;
by this process's clock, all beginning together. From the host: as in a job, operands and product in page-locked memory,
the library's call and then the check in tiles.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure.tiles.data import page_locked
from benchmarks.measure.tiles.multi_gpu import LAUNCHES, Resident, resident_s
from benchmarks.measure.tiles.out_of_core import arrays_of
from benchmarks.measure.tiles.runs import chosen, fill_on_device, in_tiles
from benchmarks.recorded import record_rows
from jobs.formats.elements import Array
from jobs.settings import Settings
from kernels.model.numerics import DTYPES, DTypeName, Problem
from worker.cpu.environment import dated_environment
from worker.cuda.from_host.mp_gang import MpGang, RankProduct
from worker.cuda.runner import CudaRunner
from worker.device.cancellable_lock import never_cancelled

N, LIMIT_S = 16_384, 60.0
TYPES: tuple[DTypeName, ...] = ("float32", "float16", "float64", "bfloat16")


class FromHost(NamedTuple):
    dtype: DTypeName
    kernel: str


FROM_HOST = (FromHost("float32", "cublasmp"), FromHost("float32", "cublas_xt"), FromHost("float32", "cublas"))


def library_s(gang: MpGang, dtype: DTypeName) -> float:
    """The best of several launches, all GPUs beginning together, on normal numbers."""
    spans = [[(0.0, 0.0)] * LAUNCHES for _ in range(gang.count)]

    def run(rank: int, product: RankProduct) -> None:
        for number, memory in enumerate(product.memory[:2]):
            fill_on_device(memory, N * N // gang.count, dtype, number)
        with gang.joined(product):
            product.launch_s()
            for launch in range(LAUNCHES):
                gang.wait()
                began = time.perf_counter()
                product.launch_s()
                spans[rank][launch] = began, time.perf_counter()

    gang.on_each(Problem(N, N, N, dtype), run, never_cancelled, LIMIT_S)
    slowest: list[float] = [max(ends) - min(begins) for begins, ends in _ends_of(spans)]
    return min(slowest)


def _ends_of(spans: Sequence[Sequence[tuple[float, float]]]) -> Iterator[tuple[tuple[float, ...], tuple[float, ...]]]:
    """For each launch, when each GPU began, and when it ended."""
    for launch in range(LAUNCHES):
        of_each = [own[launch] for own in spans]
        yield tuple(begin for begin, _ in of_each), tuple(end for _, end in of_each)


def resident_rows(runner: CudaRunner, gang: MpGang) -> Iterator[dict[str, Any]]:
    for dtype in TYPES:
        problem = Problem(N, N, N, dtype)
        one = resident_s(list(runner.tiler.gpus[:1]), Resident(dtype, "cublas", N), chosen(runner, "cublas", problem))
        several = library_s(gang, dtype)
        yield {
            "what": "resident",
            "dtype": dtype,
            "kernel": "cublasmp",
            "n": N,
            "one_s": one,
            "several_s": several,
            "one_tflops": problem.flops / one / 1e12,
            "several_tflops": problem.flops / several / 1e12,
            "speedup": one / several,
        }


def from_host_rows(runner: CudaRunner, memory: Array) -> Iterator[dict[str, Any]]:
    """The second run of each: the first compiles the check, and lets the GPUs connect to each other."""
    for case in (each for each in FROM_HOST if each.kernel in runner.kernels):
        problem = Problem(N, N, N, case.dtype)
        choice, arrays = chosen(runner, case.kernel, problem), arrays_of(memory, N, case.dtype)
        tiling = runner.tiling(problem, choice, has_epilogue=False)
        assert tiling is not None, "it is large"
        for _ in range(2):
            row = in_tiles(runner, choice, tiling, arrays)
        yield {"what": "from host"} | row


def rows(runner: CudaRunner, gang: MpGang) -> Iterator[dict[str, Any]]:
    yield from resident_rows(runner, gang)
    with page_locked(3 * N * N * DTYPES["float32"].itemsize) as memory:
        yield from from_host_rows(runner, memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="gpus:0,1")
    arguments = parser.parse_args()
    runner = CudaRunner(Settings(device=arguments.device))
    gang = MpGang([gpu.index for gpu in runner.tiler.gpus])
    environment = dated_environment("cupy-cuda13x", "numpy")
    about = {
        "environment": environment,
        "device": runner.device.name,
        "gpus": gang.count,
        "versions": runner.device.versions,
    }
    record_rows(arguments.out, about, rows(runner, gang))


if __name__ == "__main__":
    main()
