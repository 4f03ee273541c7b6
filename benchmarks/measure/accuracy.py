"""Records the errors of float32 kernels on operands of every kind, with the library's, for docs/accuracy.md.

    python -m benchmarks.measure.accuracy --out benchmarks/results/h200_accuracy.json.gz
    python -m benchmarks.measure.accuracy --device cpu --sizes 256 --kernels cpu_blas --out /tmp/accuracy.json

The true product is computed in float64 by the device's library; errors are computed on the device. A config is written
like fp32_emulated:cluster=1. Sizes of 8192 and more use the kinds in LARGE_KINDS, unless --kinds names others.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from secrets import randbits
from typing import Any

import numpy as np

from benchmarks.measure.element_errors import Errors, Float64Reference
from benchmarks.operand_kinds import FAR, KINDS, Pair, square
from benchmarks.recorded import write_rows
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.settings import Settings
from kernels.catalog import BY_NAME
from kernels.model.accuracy import element_bound
from kernels.model.entry.config import TileConfig
from kernels.model.numerics import AccuracyName, DTypeName, Problem
from kernels.selection.choose import choose
from worker.cpu.environment import dated_environment
from worker.device.operands import HostOperand
from worker.device.runner import Runner, gathered
from worker.process.start import make_runner

SIZES = (2048, 4096, 8192)
EMULATED = ("fp32_emulated", *(f"fp32_emulated:min_products={min_products}" for min_products in (7, 8, 10)))
KERNELS = ("cublas", "hopper_fp32", *EMULATED, "strassen")
FIELDS = {  # of a row, by measure
    "frobenius": "errors",
    "worst_row": "worst_row",
    "worst_column": "worst_column",
    "worst_element": "worst_element",
}
DTYPE: DTypeName = "float32"
LARGE = 8192
LARGE_KINDS = (
    "normal",
    "uniform(0, 1)",
    "cancelling halves",
    FAR,
    "units along k, a few rows",
    "log-normal, σ = 1",
    "log-normal, σ = 3",
    "1 % non-zero",
    "time stamp",
    "a large element that meets zeros",
)
PACKAGES = ("cupy-cuda13x", "numpy")


def named(text: str) -> tuple[str, TileConfig]:
    """A kernel and its requested config. Raises argparse.ArgumentTypeError, ValueError."""
    name, _, asked = text.partition(":")
    if name not in BY_NAME:
        raise argparse.ArgumentTypeError(f"there is no kernel {name!r}")
    pairs = (item.split("=", 1) for item in filter(None, asked.split(",")))
    return name, {key: int(value) for key, value in pairs}


def accuracy_of(name: str) -> AccuracyName:
    return BY_NAME[name].accuracy[DTYPE]


def product(runner: Runner, name: str, config: TileConfig, pair: Pair) -> Array:
    """The product of square operands. Raises InvalidConfig, KernelUnavailable."""
    size = len(pair[0])
    problem = Problem(size, size, size, DTYPE)
    choice = choose(name, config, problem, accuracy_of(name), runner.device.traits)
    with runner.compute(problem, choice, HostOperand(pair[0]), HostOperand(pair[1])) as made:
        return np.frombuffer(gathered(made.chunks()), STORAGE_DTYPES[DTYPE]).reshape(size, size)


def on_device(runner: Runner, matrix: Array) -> Any:
    """The matrix where its errors are computed: a CuPy array on a GPU."""
    if runner.device.device_class == "cpu":
        return matrix
    import cupy

    return cupy.asarray(matrix)


def errors_of(runner: Runner, kernels: Sequence[str], pair: Pair) -> dict[str, Errors]:
    """Errors by kernel, under the name given on the command line."""
    reference, errors = Float64Reference(*(on_device(runner, each) for each in pair)), {}
    for text in kernels:
        name, config = named(text)
        bound = element_bound(accuracy_of(name), DTYPE, len(pair[0]))
        errors[text] = reference.errors(on_device(runner, product(runner, name, config, pair)), bound)
    return errors


def kinds_at(size: int, asked: Sequence[str] | None) -> Sequence[str]:
    return asked or (LARGE_KINDS if size >= LARGE else tuple(KINDS))


def measured(
    runner: Runner, sizes: Sequence[int], kernels: Sequence[str], kinds: Sequence[str] | None, seed: int
) -> Iterator[dict[str, Any]]:
    """A row for each kind of operands and size: by measure, the error of each kernel."""
    numbers = {kind: number for number, kind in enumerate(KINDS)}
    for size in sizes:
        for kind in kinds_at(size, kinds):
            pair = square(kind, size, np.random.default_rng([seed, size, numbers[kind]]))
            by_kernel = {text: asdict(errors) for text, errors in errors_of(runner, kernels, pair).items()}
            by_measure = {
                field: {text: errors[name] for text, errors in by_kernel.items()} for name, field in FIELDS.items()
            }
            yield {"operands": kind, "n": size, **by_measure}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--kernels", nargs="+", default=KERNELS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, metavar="KIND", help="only these kinds of operands")
    parser.add_argument("--seed", type=int, default=randbits(31))
    arguments = parser.parse_args()
    runner, rows, began = make_runner(Settings(device=arguments.device)), [], time.monotonic()
    about = {"environment": dated_environment(*PACKAGES), "device": runner.device.name, "seed": arguments.seed}
    for row in measured(runner, arguments.sizes, arguments.kernels, arguments.kinds, arguments.seed):
        rows.append(row)
        write_rows(arguments.out, about, rows)
        errors = ", ".join(
            f"{name} {error:.3g} ({row['worst_row'][name]:.3g})" for name, error in row["errors"].items()
        )
        print(f"{time.monotonic() - began:.0f} s: {row['operands']}, N = {row['n']}: {errors}", flush=True)


if __name__ == "__main__":
    main()
