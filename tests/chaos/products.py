"""What each job is. Operands are small integers that hold the job's number, so that a wrong, stale or swapped product
shows bit for bit; every sum is exact in the element type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from safetensors.numpy import save

from jobs.matrices.random import generate
from jobs.requests.operands import RandomSpec
from tests.chaos.layout import Layout

Path = Literal[
    "inline", "in record", "stored", "large", "uploaded", "chained", "waited for", "sent thrice", "cancelled",
    "redriven", "heavy", "benchmark", "parted", "tiled",
]  # fmt: skip
Shares = Mapping[Path, int]
# Of a hundred jobs; benchmarks and heavy ones take the place of some.
SHARES: Shares = {
    "inline": 57, "in record": 16, "stored": 3, "large": 1, "uploaded": 2, "chained": 6, "waited for": 4,
    "sent thrice": 5, "cancelled": 3, "redriven": 3,
}  # fmt: skip
HEAVY_EVERY, BENCHMARK_EVERY = 125, 500
_STEP = 37  # prime to 100, so that paths alternate
SIDES: dict[Path, int] = {"in record": 8, "stored": 80, "large": 300}
PARTED = 2100  # with as many columns 17 MB, more than one part of an upload
TILED = (768, 2048, 768)
LONG, LONG_SEEDS = 400_000, 16  # elements of the sums of such a product, and how many products of its kind differ
JSON = {"Content-Type": "application/json"}
TENSORS = {"Content-Type": "application/x-safetensors"}
Matrix = np.ndarray[Any, np.dtype[Any]]


def shares_of(layout: Layout) -> Shares:
    """In place of some that come inline."""
    more: dict[Path, int] = {"tiled": 12} if layout.has_tiles else {}
    if layout.store == "s3":
        more |= {"stored": 20, "large": 8, "uploaded": 8, "parted": 3}
    left = sum(share - SHARES.get(path, 0) for path, share in more.items())
    return {**SHARES, **more, "inline": SHARES["inline"] - left}


def path_of(number: int, shares: Shares = SHARES) -> Path:
    if number % HEAVY_EVERY == HEAVY_EVERY - 1:
        if number % BENCHMARK_EVERY == BENCHMARK_EVERY - 1:
            return "benchmark"
        return "tiled" if "tiled" in shares else "heavy"
    place = number * _STEP % 100
    return next(path for path, upto in zip(shares, accumulate(shares.values()), strict=True) if place < upto)


@dataclass(frozen=True, slots=True)
class Body:
    """A POST to `target`, and the product that must come of it; none of a benchmark."""

    target: str
    headers: dict[str, str]
    content: bytes
    product: bytes | None


def small(number: int) -> tuple[Matrix, Matrix]:
    """int32, 2×2."""
    a = np.array([[number, 1], [2, number % 97]], np.int32)
    return a, np.array([[1, 3], [number % 89, 5]], np.int32)


def square(number: int, side: int) -> tuple[Matrix, Matrix]:
    """float32. The digits of the number are in the first row of A, and B hands them on to the product."""
    a = (np.add.outer(np.arange(side) * (number + 1), np.arange(side) * 7) % 61 - 30).astype(np.float32)
    b = (np.add.outer(np.arange(side) * 3 + number, np.arange(side) * 5) % 53 - 26).astype(np.float32)
    a[0, :3] = [number % 128, number // 128 % 128, number // 16384]
    b[:, :3] = np.eye(side, 3)
    return a, b


def rectangular(number: int, m: int, k: int, n: int) -> tuple[Matrix, Matrix]:
    """The same with three extents, and so small that sums of thousands of terms need few bits."""
    a = (np.add.outer(np.arange(m) * (number + 1), np.arange(k) * 7) % 61 % 7 - 3).astype(np.float32)
    b = (np.add.outer(np.arange(k) * 3 + number, np.arange(n) * 5) % 53 % 5 - 2).astype(np.float32)
    a[0, :3] = [number % 128, number // 128 % 128, number // 16384]
    b[:, :3] = np.eye(k, 3)
    return a, b


def inline(number: int) -> Body:
    a, b = small(number)
    body = {"a": a.tolist(), "b": b.tolist(), "dtype": "int32"}
    return Body("/v1/matmul", JSON, json.dumps(body).encode(), (a @ b).tobytes())


def binary(number: int, side: int) -> Body:
    a, b = square(number, side)
    return Body("/v1/matmul", TENSORS, save({"a": a, "b": b}), (a @ b).tobytes())


def parted(number: int) -> Body:
    """An operand, or the product, is so large that it goes to an object store in parts."""
    m, k, n = (PARTED, PARTED, 16) if number % 2 else (PARTED, 16, PARTED)
    a, b = rectangular(number, m, k, n)
    return Body("/v1/matmul", TENSORS, save({"a": a, "b": b}), (a @ b).tobytes())


def tiled(number: int, kernel: str) -> Body:
    """So large that it goes in tiles where a device may use `layout.DEVICE_BYTES`: operands in the store, or made by
    the worker."""
    m, k, n = TILED
    if number % 2:
        a, b = rectangular(number, m, k, n)
        options = {"options": json.dumps({"kernel": kernel})}
        return Body("/v1/matmul", TENSORS, save({"a": a, "b": b}, options), (a @ b).tobytes())
    specs = [RandomSpec(shape=shape, seed=number, distribution="integers") for shape in ((m, k), (k, n))]
    operands = {name: {"random": spec.model_dump(mode="json")} for name, spec in zip("ab", specs, strict=True)}
    a, b = (generate(spec, "float32") for spec in specs)
    return Body("/v1/matmul", JSON, json.dumps({**operands, "kernel": kernel}).encode(), (a @ b).tobytes())


def matrix(number: int) -> tuple[dict[str, str], bytes]:
    """The left operand alone: headers and contents of an upload."""
    a, _ = small(number)
    types = {"Content-Type": "application/octet-stream", "X-Matmul-Dtype": "int32", "X-Matmul-Shape": "2,2"}
    return types, a.tobytes()


def uploaded(number: int, matrix_id: str) -> Body:
    a, b = small(number)
    body = {"a": {"matrix": matrix_id}, "b": b.tolist(), "dtype": "int32"}
    return Body("/v1/matmul", JSON, json.dumps(body).encode(), (a @ b).tobytes())


def chained(number: int, before: int, job: str) -> Body:
    """The product of an inline job times a matrix with a number of its own."""
    a, b = small(before)
    c = np.array([[1, number % 7], [2, number % 11]], np.int32)
    body = {"a": {"job": job}, "b": c.tolist(), "dtype": "int32"}
    return Body("/v1/matmul", JSON, json.dumps(body).encode(), (a @ b @ c).tobytes())


def heavy(number: int) -> Body:
    """A small product that takes a moment, for a fault to meet: operands made by the worker."""
    body = {name: {"random": spec.model_dump(mode="json")} for name, spec in zip("ab", _long(number), strict=True)}
    return Body("/v1/matmul", JSON, json.dumps(body).encode(), _long_product(number % LONG_SEEDS))


def _long(number: int) -> list[RandomSpec]:
    """Both operands."""
    seed, shapes = number % LONG_SEEDS, ((3, LONG), (LONG, 3))
    return [RandomSpec(shape=shape, dtype="float64", seed=seed, distribution="integers") for shape in shapes]


@lru_cache
def _long_product(seed: int) -> bytes:
    a, b = (generate(spec, "float64") for spec in _long(seed))
    product: bytes = (a @ b).tobytes()
    return product


def benchmark(number: int) -> Body:
    spec = {
        "title": f"chaos {number}",
        "device": "cpu",
        "kernels": ["cpu_blas"],
        "dtypes": ["float32"],
        "shapes": [8, 16],
        "timing": {"rounds": 1, "warmup_ms": 0, "min_time_s": 0.001, "min_samples": 2, "max_samples": 4},
    }
    return Body("/v1/benchmarks", JSON, json.dumps(spec).encode(), None)
