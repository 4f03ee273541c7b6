"""Measures every kernel of the catalogue against cuBLAS on the GPU of this machine.

    python -m benchmarks.catalogue --out benchmarks/results/h200_catalogue.json
    python -m benchmarks.catalogue --sweep pipelined --sizes 512 4096

Each kernel runs at its default config, float32 (tensor cores: float16), at sizes that tiles divide and sizes that they
do not. `fraction_of_cublas` is against cuBLAS of the same operands and product type in the same rounds. With `--sweep`,
every config of one kernel instead, fastest first: what its defaults were chosen by.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.environment import environment
from benchmarks.kernel_timing import Bench, median, rounds
from kernels.catalog import BY_NAME, CATALOG
from kernels.kernel import NO_CONFIG, CudaKernel, Kernel, TileConfig
from kernels.numerics import DTYPE_NAMES, DTypeName, Problem, gflops
from worker.cuda_device import cuda_info
from worker.sources import kernel_program

SIZES = (256, 512, 1024, 1025, 2047, 2048, 4096, 4097, 8192)
BASELINE = "cublas"
SAMPLES = {256: 30, 2049: 15, 4097: 7, 8193: 5}  # up to that size


def dtype_of(kernel: Kernel) -> DTypeName:
    return "float32" if "float32" in kernel.dtypes else "float16"


def kernels() -> list[Kernel]:
    return [kernel for kernel in CATALOG if kernel.device_class == "gpu"]


def samples_for(n: int) -> int:
    return next((count for most, count in SAMPLES.items() if n <= most), 3)


def one_size(size: tuple[int, int, int], dtype: DTypeName, cache: Path) -> Iterator[dict[str, Any]]:
    problem, traits = Problem(*size, dtype), cuda_info(0).traits
    bench = Bench(problem, cache)
    chosen = [kernel for kernel in kernels() if dtype_of(kernel) == dtype or kernel.name == BASELINE]
    configs = {kernel.name: kernel.resolve_config(NO_CONFIG, problem, traits) for kernel in chosen}
    actions = {name: bench.action(name, config) for name, config in configs.items()}
    taken = rounds(bench, actions, samples=samples_for(max(size)))
    baseline_ms = median(taken[BASELINE])
    for name, config in configs.items():
        resources = bench.resources(name, config)
        kernel_ms = median(taken[name])
        yield {
            "kernel": name,
            "dtype": dtype,
            "m": problem.m,
            "n": problem.n,
            "k": problem.k,
            "config": dict(config),
            "samples": len(taken[name]),
            "kernel_ms": kernel_ms,
            "fastest_ms": min(taken[name]),
            "slowest_ms": max(taken[name]),
            "gflops": gflops(problem, kernel_ms),
            "fraction_of_cublas": baseline_ms / kernel_ms,
            "error_vs_float64": bench.error(actions[name]),
            **(asdict(resources) if resources else {}),
        }


def whole(sizes: list[tuple[int, int, int]], cache: Path) -> dict[str, Any]:
    records: list[dict[str, Any]] = []
    for dtype in ("float32", "float16"):
        for size in sizes:
            for record in one_size(size, dtype, cache):
                records.append(record)
                print(
                    f"{dtype} {size} {record['kernel']:24s} {record['gflops']:9.0f} GFLOPS "
                    f"{record['fraction_of_cublas']:.3f} error {record['error_vs_float64']:.1e}",
                    flush=True,
                )
    return {"environment": environment(), "device": cuda_info(0).model_dump(mode="json"), "records": records}


def sweep(name: str, sizes: list[tuple[int, int, int]], dtype: DTypeName, cache: Path) -> None:
    """Prints every config of a kernel by its speed."""
    kernel, traits = BY_NAME[name], cuda_info(0).traits
    assert isinstance(kernel, CudaKernel), f"{name} has no configs"
    for m, n, k in sizes:
        problem = Problem(m, n, k, dtype)
        bench = Bench(problem, cache)
        configs = [config for config in kernel.configs() if kernel.misfit(config, dtype, traits) is None]
        with ThreadPoolExecutor() as pool:
            list(pool.map(bench.compiler.binary, {kernel_program(kernel, config, problem) for config in configs}))
        found: list[tuple[float, TileConfig]] = []
        for config in configs:
            actions = {name: bench.action(name, config), BASELINE: bench.action(BASELINE, NO_CONFIG)}
            taken = rounds(bench, actions, samples=3)
            found.append((median(taken[BASELINE]) / median(taken[name]), config))
        for fraction, config in sorted(found, key=lambda pair: -pair[0]):
            print(f"{dtype} {m}x{n}x{k} {name} {fraction:.3f} {json.dumps(dict(config))}", flush=True)


def _size(text: str) -> tuple[int, int, int]:
    m, *others = map(int, text.split(","))
    n, k = others or (m, m)
    return m, n, k


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sizes", type=_size, nargs="+", default=[(n, n, n) for n in SIZES], help="n, or m,n,k")
    parser.add_argument("--cache", type=Path, default=Path("/tmp/matmul-kernels"), help="directory of compiled kernels")
    parser.add_argument("--sweep", choices=sorted(BY_NAME), metavar="KERNEL")
    parser.add_argument("--dtype", choices=DTYPE_NAMES, default="float32")
    options = parser.parse_args()
    if options.sweep:
        sweep(options.sweep, options.sizes, options.dtype, options.cache)
        return
    record = whole(options.sizes, options.cache)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
