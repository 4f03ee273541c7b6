"""Products larger than a GPU, on one GPU, from and to page-locked memory of the host: for docs/scaling.md.

    python -m benchmarks.measure.tiles.out_of_core --out benchmarks/results/h100_out_of_core.json

Each product is checked tile by tile, and the operands on the device are compared with those in the host's memory, as in
a worker. The in-core rate is the kernel's own at N = 32,768. `--n` is the size of the largest product; it is made
smaller if the host has no room for its matrices. `--types` measures a part, in as much memory as that takes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure.tiles.data import fill, matrix, page_locked
from benchmarks.measure.tiles.runs import by_cublas_xt, chosen, in_core_tflops, in_tiles, warm_up
from benchmarks.recorded import record_rows
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.settings import GIB, Settings
from kernels.model.numerics import DTypeName, Problem
from worker.cpu.device import available_bytes
from worker.cpu.environment import dated_environment
from worker.cuda.runner import CudaRunner

IN_CORE = 32_768
SPARE = 0.06  # of the host's memory
STEP = 2000


class Case(NamedTuple):
    """`share`: the share of the largest product's size in float32."""

    dtype: DTypeName
    kernel: str
    share: float
    allowed_bytes: int


H100_BYTES = 70 * GIB  # nine tenths of its memory
CASES = (
    Case("float32", "cublas", 1.0, H100_BYTES),
    Case("bfloat16", "hopper_bf16", 1.0, 24 * GIB),
    Case("bfloat16", "cublas", 1.0, 24 * GIB),
    Case("float64", "cublas", 62 / 90, H100_BYTES),
    Case("float32", "fp32_emulated", 0.7, 24 * GIB),
    Case("int8", "hopper_int8", 0.7, 16 * GIB),
)
XT_CASES: tuple[tuple[DTypeName, float], ...] = (("float32", IN_CORE / 90_000), ("float32", 1.0), ("float64", 62 / 90))
XT_BLOCK = 8192


def size_of(n: int, share: float) -> int:
    return int(n * share) // STEP * STEP


def needed_bytes(cases: Sequence[Case], n: int) -> int:
    """Of the largest of these products, with its operands."""
    sizes = ((size_of(n, case.share), case.dtype) for case in cases)
    problems = (Problem(size, size, size, dtype) for size, dtype in sizes)
    return max(problem.operand_bytes + problem.product_bytes for problem in problems)


def largest_n(asked: int, cases: Sequence[Case]) -> int:
    free = int((available_bytes() or 0) * (1 - SPARE))
    n = asked
    while needed_bytes(cases, n) > free:
        n -= STEP
    return n


def arrays_of(memory: Array, n: int, dtype: DTypeName) -> tuple[Array, Array, Array]:
    product: DTypeName = "int32" if dtype == "int8" else dtype
    size = n * n * np.dtype(STORAGE_DTYPES[dtype]).itemsize
    a, b = (matrix(memory, place * size, (n, n), dtype) for place in range(2))
    fill(a, dtype, 1)
    fill(b, dtype, 2)
    return a, b, matrix(memory, 2 * size, (n, n), product)


def measured(case: Case, memory: Array, n: int, in_core: dict[tuple[str, str], float]) -> dict[str, Any]:
    size = size_of(n, case.share)
    runner = CudaRunner(Settings(device="gpu:0", device_memory_bytes=case.allowed_bytes))
    problem = Problem(size, size, size, case.dtype)
    choice = chosen(runner, case.kernel, problem)
    key = case.kernel, case.dtype
    if key not in in_core:
        small = Problem(IN_CORE, IN_CORE, IN_CORE, case.dtype)
        in_core[key] = in_core_tflops(runner.tiler.gpus[0], chosen(runner, case.kernel, small), small, 1.0)
    tiling = runner.tiling(problem, choice, has_epilogue=False)
    assert tiling is not None, "it fits"
    warm_up(runner, choice, tiling)
    arrays = arrays_of(memory, size, case.dtype)
    row = in_tiles(runner, choice, tiling, arrays)
    return row | {"allowed_bytes": case.allowed_bytes, "in_core_tflops": in_core[key]}


def rows(memory: Array, n: int, cases: Sequence[Case]) -> Iterator[dict[str, Any]]:
    in_core: dict[tuple[str, str], float] = {}
    for case in cases:
        row = measured(case, memory, n, in_core)
        row["of_in_core"] = row["tflops"] / row["in_core_tflops"]
        yield row
    for dtype, share in XT_CASES:
        if ("cublas", dtype) not in in_core:
            continue
        arrays = arrays_of(memory, size_of(n, share), dtype)
        row = by_cublas_xt(arrays, (0,), XT_BLOCK)
        yield row | {"of_in_core": row["tflops"] / in_core["cublas", dtype]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--n", type=int, default=90_000)
    types = list(dict.fromkeys(case.dtype for case in CASES))
    parser.add_argument("--types", nargs="+", choices=types, default=types)
    arguments = parser.parse_args()
    device = CudaRunner(Settings(device="gpu:0")).device
    about = {
        "environment": dated_environment("cupy-cuda13x", "numpy"),
        "device": device.name,
        "host_bytes": available_bytes(),
        "versions": device.versions,
    }
    cases = [case for case in CASES if case.dtype in arguments.types]
    n = largest_n(arguments.n, cases)
    with page_locked(needed_bytes(cases, n)) as memory:
        record_rows(arguments.out, about, rows(memory, n, cases))


if __name__ == "__main__":
    main()
