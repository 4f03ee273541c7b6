"""Measures the time that the check of a product takes, relative to the product, for docs/performance.md.

    python -m benchmarks.measure.check --out benchmarks/results/check_cpu.json
    python -m benchmarks.measure.check --device gpu:0 --out benchmarks/results/check_h200.json

Square products of normal operands by the device's library, as in a job: the operands are where the runner put them. The
whole check is timed, from its call to its verdict; the product is timed by the runner's own clock. On a GPU the check
includes the digests of operands and product; its memory and arguments are prepared while the device multiplies.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.recorded import write_rows
from jobs.formats.elements import Array
from jobs.settings import Settings
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.selection.choose import choose
from worker.check.elements import narrow
from worker.check.verify import check
from worker.cpu.environment import dated_environment
from worker.device.operands import HostOperand
from worker.device.runner import Runner
from worker.process.start import make_runner

SIZES = (1024, 2048, 4096, 8192)
DTYPES_MEASURED: tuple[DTypeName, ...] = ("float32", "float64", "bfloat16", "int8")
SAMPLES, MIN_SAMPLES, ENOUGH_S = 25, 3, 5.0  # of a size; after this time the minimum is enough
PACKAGES = ("cupy-cuda13x", "numpy")


def operand(n: int, dtype: DTypeName, rng: np.random.Generator) -> Array:
    if DTYPES[dtype].is_integer:
        return rng.integers(-8, 9, (n, n)).astype(np.int8)
    values = rng.standard_normal((n, n), dtype=np.float32)
    return narrow(values, dtype) if DTYPES[dtype].itemsize < 4 else values.astype(dtype)


def measured(runner: Runner, n: int, dtype: DTypeName, rng: np.random.Generator) -> Mapping[str, Any]:
    """Milliseconds of the product and of its check."""
    problem, accuracy = Problem(n, n, n, dtype), DTYPES[dtype].accuracy
    kernel = "cpu_blas" if runner.device.device_class == "cpu" else "cublas"
    choice = choose(kernel, {}, problem, accuracy, runner.device.traits)
    a, b = (HostOperand(operand(n, dtype, rng), letter * 64) for letter in "ab")
    products: list[float] = []
    checks: list[float] = []
    ends_at = time.monotonic() + ENOUGH_S
    while len(checks) < SAMPLES and (len(checks) < MIN_SAMPLES or time.monotonic() < ends_at):
        # With `zero_output` no check is launched behind the product, so this one is measured by itself.
        with runner.compute(problem, choice, a, b, zero_output=True) as product:
            begun = time.perf_counter()
            passed = check(problem, accuracy, product.matrices, rng).passed
            checks.append((time.perf_counter() - begun) * 1e3)
            for _ in product.chunks():
                pass
            products.append(product.measured.kernel_ms)
            assert passed, (problem, kernel)
    return {"dtype": dtype, "n": n, "kernel": kernel, "product_ms": median(products), "check_ms": median(checks)}


def rows(runner: Runner, sizes: list[int]) -> Iterator[Mapping[str, Any]]:
    rng = np.random.default_rng()
    for dtype in DTYPES_MEASURED:
        for n in sizes:
            row = measured(runner, n, dtype, rng)
            print(row, flush=True)
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    asked = parser.parse_args()
    runner = make_runner(Settings(device=asked.device))
    about = {"environment": dated_environment(*PACKAGES), "device": runner.device.name}
    write_rows(asked.out, about, rows(runner, asked.sizes))


if __name__ == "__main__":
    main()
