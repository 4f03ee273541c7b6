"""Products on two GPUs of one host compared with one, for docs/scaling.md.

    python -m benchmarks.measure.tiles.multi_gpu --out benchmarks/results/h200x2_multi_gpu.json

Resident: each GPU has its rows of A and all of B, and computes its rows of C; the kernel alone. From the host: operands
and product in page-locked memory, checked tile by tile, as in a worker. The same product is computed by one GPU as a
whole, by one in tiles, and by two, and the results are compared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, NamedTuple

import cupy
import numpy as np

from benchmarks.measure.tiles.data import page_locked
from benchmarks.measure.tiles.out_of_core import arrays_of
from benchmarks.measure.tiles.runs import DeviceOperands, by_cublas_xt, chosen, in_tiles, warm_up
from benchmarks.recorded import record_rows
from jobs.formats.elements import Array
from jobs.settings import GIB, Settings
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.candidates import Choice
from worker.cpu.environment import dated_environment
from worker.cuda.runner import CudaRunner
from worker.cuda.tiles.gpus import Gpu
from worker.device.tiles import Tiling

LAUNCHES = 5
COMPARED_N = 12_000
LARGEST_N = 32_768


class Resident(NamedTuple):
    dtype: DTypeName
    kernel: str
    n: int


RESIDENT = (
    Resident("float32", "cublas", 16_384),
    Resident("float64", "cublas", 16_384),
    Resident("bfloat16", "cublas", 32_768),
    Resident("bfloat16", "hopper_bf16", 32_768),
    Resident("float32", "fp32_emulated", 16_384),
)
FROM_HOST: tuple[Resident, ...] = (
    Resident("float32", "cublas", 32_768),
    Resident("float32", "fp32_emulated", 32_768),
    Resident("bfloat16", "cublas", 32_768),
)


def resident_s(gpus: list[Gpu], case: Resident, choice: Choice) -> float:
    """The best of several launches, all GPUs beginning together; by this process's clock."""
    rows = case.n // len(gpus)
    problem = Problem(rows, case.n, case.n, case.dtype)
    barrier, spent = Barrier(len(gpus)), [[0.0] * LAUNCHES for _ in gpus]

    def run(place: int) -> None:
        with cupy.cuda.Device(gpus[place].index), cupy.cuda.Stream(non_blocking=True) as stream:
            operands = DeviceOperands(gpus[place], problem, choice)
            operands.launch()
            stream.synchronize()
            for launch in range(LAUNCHES):
                barrier.wait()
                began = time.perf_counter()
                operands.launch()
                stream.synchronize()
                barrier.wait()
                spent[place][launch] = time.perf_counter() - began
            operands.free()

    threads = [Thread(target=run, args=(place,)) for place in range(len(gpus))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    slowest: list[float] = [max(of_all) for of_all in zip(*spent, strict=True)]
    return min(slowest)


def forced(runner: CudaRunner, problem: Problem, choice: Choice) -> Tiling:
    """In tiles, even if it would fit."""
    tiling = runner.tiler.in_tiles(problem, choice)
    assert tiling is not None, "k is not too deep"
    return tiling


def resident_rows(gang: CudaRunner) -> Iterator[dict[str, Any]]:
    for case in RESIDENT:
        choice = chosen(gang, case.kernel, Problem(case.n // 2, case.n, case.n, case.dtype))
        one, two = (resident_s(list(gang.tiler.gpus[:count]), case, choice) for count in (1, 2))
        flops = 2 * case.n**3
        yield {
            "what": "resident",
            **case._asdict(),
            "one_s": one,
            "two_s": two,
            "one_tflops": flops / one / 1e12,
            "two_tflops": flops / two / 1e12,
            "speedup": one / two,
        }


def from_host_rows(one: CudaRunner, gang: CudaRunner, memory: Array) -> Iterator[dict[str, Any]]:
    for case in FROM_HOST:
        problem = Problem(case.n, case.n, case.n, case.dtype)
        arrays = arrays_of(memory, case.n, case.dtype)
        choice = chosen(one, case.kernel, problem)
        tilings = [forced(runner, problem, choice) for runner in (one, gang)]
        for runner, tiling in zip((one, gang), tilings, strict=True):
            warm_up(runner, choice, tiling)
        runs = [in_tiles(*way, arrays) for way in zip((one, gang), (choice, choice), tilings, strict=True)]
        speedup = runs[0]["product_s"] / runs[1]["product_s"]
        yield {"what": "from host", "speedup": speedup, "one": runs[0], "two": runs[1]}
    arrays = arrays_of(memory, LARGEST_N, "float32")
    for devices in ((0,), (0, 1)):
        yield {"what": "cublas_xt", **by_cublas_xt(arrays, devices, 8192)}


def compared_rows(one: CudaRunner, gang: CudaRunner, memory: Array) -> Iterator[dict[str, Any]]:
    """Each product in three ways, by the same kernel, compared with cuBLAS in float64 on the device, row by row."""
    for dtype, kernel in (("float32", "cublas"), ("bfloat16", "hopper_bf16"), ("int8", "hopper_int8")):
        a, b, out = arrays_of(memory, COMPARED_N, dtype)  # type: ignore[arg-type]  # of literals
        problem = Problem(COMPARED_N, COMPARED_N, COMPARED_N, dtype)  # type: ignore[arg-type]
        choice = chosen(one, kernel, problem)
        products = {}
        for name, runner in (("out of core", one), ("two GPUs", gang)):
            out[...] = 0
            row = in_tiles(runner, choice, forced(runner, problem, choice), (a, b, out))
            products[name] = out.copy(), row["worst_ratio"]
        with cupy.cuda.Device(0), cupy.cuda.Stream(non_blocking=True):
            operands = DeviceOperands(one.tiler.gpus[0], problem, choice, (a, b))
            whole = operands.product().reshape(out.shape)
            operands.free()
        for name, (product, ratio) in products.items():
            differing = float(np.mean(product != whole))
            yield {"what": "compared", "dtype": dtype, "kernel": kernel, "n": COMPARED_N, "way": name} | {
                "differing_elements": differing,
                "worst_ratio": ratio,
            }


def rows(one: CudaRunner, gang: CudaRunner) -> Iterator[dict[str, Any]]:
    yield from resident_rows(gang)
    with page_locked(12 * LARGEST_N * LARGEST_N) as memory:
        yield from from_host_rows(one, gang, memory)
        yield from compared_rows(one, gang, memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--allowed", type=int, default=24 * GIB, help="bytes of each GPU that a product may take")
    arguments = parser.parse_args()
    one = CudaRunner(Settings(device="gpu:0", device_memory_bytes=arguments.allowed))
    gang = CudaRunner(Settings(device="gpus:0,1", device_memory_bytes=arguments.allowed))
    environment = dated_environment("cupy-cuda13x", "numpy")
    about = {"environment": environment, "device": one.device.name, "gpus": 2, "versions": one.device.versions}
    record_rows(arguments.out, about, rows(one, gang))


if __name__ == "__main__":
    main()
