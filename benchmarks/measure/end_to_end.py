"""The whole path on a GPU: matrix files sent by curl, a Celery GPU worker, the product returned and checked against
float64.

    python -m benchmarks.measure.end_to_end --out benchmarks/results/h200_end_to_end.json.gz

Starts the embedded stack with one GPU and one CPU worker on free loopback ports. Every kernel multiplies the same
pairs: the record of each job is kept in the result, beside the error that this program measured itself.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.recorded import write
from jobs.formats.elements import Array
from kernels.catalog import BY_NAME, CATALOG
from tools.stack import Stack
from worker.cpu.environment import dated_environment

ODD_SHAPE = (1023, 1025, 511)  # m, n, k: every kernel
SHAPES = ((33, 65, 129), (2048, 2048, 2048), (4097, 4097, 4097))  # some kernels in several types
SOME = ("cpu_blas", "naive", "warp_tiled", "cublas")
DTYPES = ("float32", "float64", "int8")
PACKAGES = ("celery", "cupy-cuda13x", "fastapi", "numpy", "redis", "starlette", "uvicorn")
CPU_LIMIT = 2048  # larger products on a CPU would only make the run longer


def operands(shape: tuple[int, int, int], dtype: str) -> tuple[Array, Array]:
    m, n, k = shape
    rng = np.random.default_rng(m + n + k)
    if dtype == "int8":
        return rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (k, n), np.int8)
    return rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)


def curl(*arguments: str) -> bytes:
    done = subprocess.run(("curl", "-sS", "--fail-with-body", *arguments), capture_output=True)
    if done.returncode != 0:
        sys.exit(f"curl: {done.stderr.decode()} {done.stdout.decode()}")
    return done.stdout


def relative_error(product: Array, a: Array, b: Array) -> float:
    """Frobenius norm of the difference from the float64 product, over that of the product; for a sample of rows."""
    rows = np.linspace(0, a.shape[0] - 1, min(a.shape[0], 256)).astype(int)
    reference = a[rows].astype(np.float64) @ b.astype(np.float64)
    return float(np.linalg.norm(product[rows].astype(np.float64) - reference) / np.linalg.norm(reference))


def measured(url: str, directory: Path, kernel: str, dtype: str, a: Array, b: Array) -> dict[str, Any]:
    """Posts two .npy files, receives the product as .npy, and fetches the job's record."""
    product_path, headers_path = directory / "c.npy", directory / "headers"
    options = json.dumps({"kernel": kernel})
    curl(
        *("-F", f"a=@{directory}/a.npy;type=application/x-npy", "-F", f"b=@{directory}/b.npy;type=application/x-npy"),
        *("-F", f"options={options};type=application/json", "-H", "Accept: application/x-npy"),
        *("-D", str(headers_path), "-o", str(product_path), f"{url}/v1/matmul"),
    )
    headers = dict(line.split(": ", 1) for line in headers_path.read_text().splitlines() if ": " in line)
    location = next(value for name, value in headers.items() if name.lower() == "location")
    job = json.loads(curl(f"{url}{location}"))
    return {"error_vs_float64": relative_error(np.load(product_path), a, b), "job": job}


def cases() -> Iterator[tuple[str, str, tuple[int, int, int]]]:
    """Kernel, element type and shape; cases of one type and shape follow each other."""
    for dtype in ("float32", "float16"):
        for kernel in CATALOG:
            if dtype in kernel.dtypes and (dtype == "float32" or "float32" not in kernel.dtypes):
                yield kernel.name, dtype, ODD_SHAPE
    for shape, dtype, name in itertools.product(SHAPES, DTYPES, SOME):
        if dtype in BY_NAME[name].dtypes and (name != "cpu_blas" or max(shape) <= CPU_LIMIT):
            yield name, dtype, shape


def measure(url: str, directory: Path) -> list[dict[str, Any]]:
    results = []
    for (dtype, shape), group in itertools.groupby(cases(), key=lambda case: case[1:]):
        a, b = operands(shape, dtype)
        np.save(directory / "a.npy", a)
        np.save(directory / "b.npy", b)
        for kernel, *_ in group:
            results.append(measured(url, directory, kernel, dtype, a, b))
            show(kernel, dtype, shape, results[-1])
    return results


def show(kernel: str, dtype: str, shape: tuple[int, int, int], result: dict[str, Any]) -> None:
    job = result["job"]
    timing, check = job["timing"], job["verification"]
    times = " ".join(f"{name} {timing[f'{name}_ms']:.3f}" for name in ("queue", "h2d", "kernel", "d2h", "total"))
    print(
        f"{kernel:13s} {dtype:8s} {'x'.join(map(str, shape)):15s} {times} ms  {job['gflops']:.0f} GFLOPS  "
        f"error {result['error_vs_float64']:.1e}  residual {check['residual']:.1e} of {check['threshold']:.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out: Path = parser.parse_args().out
    with TemporaryDirectory() as name, Stack(Path(name), devices=("gpu:0", "cpu")) as stack:
        results = measure(stack.url, Path(name))
        devices = json.loads(curl(f"{stack.url}/v1/devices"))["devices"]
    write(out, {"environment": dated_environment(*PACKAGES), "devices": devices, "results": results})
    print(out)


if __name__ == "__main__":
    main()
