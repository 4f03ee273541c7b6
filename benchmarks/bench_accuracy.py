"""Records how far float32 kernels are off on operands of every kind, beside the library, for docs/performance.md.

    python -m benchmarks.bench_accuracy --out benchmarks/results/h200_accuracy.json
    python -m benchmarks.bench_accuracy --device cpu --sizes 256 --kernels cpu_blas --out /tmp/accuracy.json

What is true is the product in float64 by the device's library. A config is named as in fp32_emulated:cluster=1.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from secrets import randbits
from typing import Any

import numpy as np

from benchmarks.operand_kinds import KINDS, Pair, relative_error
from jobs.matrices import STORAGE_DTYPES, Array
from jobs.settings import Settings
from kernels.catalog import BY_NAME
from kernels.choose import choose
from kernels.kernel import TileConfig
from kernels.numerics import DTypeName, Problem
from worker.benchmark.environment import dated_environment
from worker.child import make_runner
from worker.runner import HostOperand, Runner, gathered

SIZES = (2048, 4096, 8192)
EMULATED = ("fp32_emulated", *(f"fp32_emulated:least={least}" for least in (7, 8, 10)))
KERNELS = ("cublas", "hopper_fp32", *EMULATED, "strassen")
LIBRARIES = {"cpu": "cpu_blas", "gpu": "cublas"}
PACKAGES = ("cupy-cuda13x", "numpy")


def named(text: str) -> tuple[str, TileConfig]:
    """A kernel, and what is asked of its config. Raises argparse.ArgumentTypeError, ValueError."""
    name, _, asked = text.partition(":")
    if name not in BY_NAME:
        raise argparse.ArgumentTypeError(f"there is no kernel {name!r}")
    pairs = (item.split("=", 1) for item in filter(None, asked.split(",")))
    return name, {key: int(value) for key, value in pairs}


def product(runner: Runner, name: str, config: TileConfig, dtype: DTypeName, pair: Pair) -> Array:
    """Of square operands of `dtype`. Raises InvalidConfig, KernelUnavailable."""
    size = len(pair[0])
    problem = Problem(size, size, size, dtype)
    choice = choose(name, config, problem, BY_NAME[name].accuracy[dtype], runner.device.traits)
    with runner.compute(problem, choice, HostOperand(pair[0]), HostOperand(pair[1])) as made:
        return np.frombuffer(gathered(made.chunks()), STORAGE_DTYPES[dtype]).reshape(size, size)


def measured(runner: Runner, sizes: Sequence[int], kernels: Sequence[str], seed: int) -> Iterator[dict[str, Any]]:
    """A row for each kind of operands and size: the error of each kernel."""
    library = LIBRARIES[runner.device.device_class]
    for size in sizes:
        for number, (kind, make) in enumerate(KINDS.items()):
            pair = make(size, np.random.default_rng([seed, size, number]))
            true = product(runner, library, {}, "float64", (pair[0].astype(np.float64), pair[1].astype(np.float64)))
            errors = {text: relative_error(product(runner, *named(text), "float32", pair), true) for text in kernels}
            yield {"operands": kind, "n": size, "errors": errors}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--kernels", nargs="+", default=KERNELS)
    parser.add_argument("--seed", type=int, default=randbits(31))
    arguments = parser.parse_args()
    runner, rows, began = make_runner(Settings(device=arguments.device)), [], time.monotonic()
    about = {"environment": dated_environment(*PACKAGES), "device": runner.device.name, "seed": arguments.seed}
    for row in measured(runner, arguments.sizes, arguments.kernels, arguments.seed):
        rows.append(row)
        arguments.out.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")
        errors = ", ".join(f"{name} {error:.3g}" for name, error in row["errors"].items())
        print(f"{time.monotonic() - began:.0f} s: {row['operands']}, N = {row['n']}: {errors}", flush=True)


if __name__ == "__main__":
    main()
