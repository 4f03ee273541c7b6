"""Roofs of the CPU as numpy reaches them: memory bandwidth by large copies, arithmetic by BLAS products."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from jobs.benchmarks.records import Ceiling
from jobs.benchmarks.statistics import summarize
from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName
from worker.cpu.device import available_bytes
from worker.cpu.usage import last_cache_bytes

CACHES_FULL = 4  # size of an array relative to the largest cache
MIN_ARRAY_BYTES, MEMORY_SHARE = 64 << 20, 16  # and at most one 16th of the memory that is free
COPIES, PRODUCTS = 10, 3  # samples of each
SIZES = (512, 1024, 2048)
DTYPES_OF_BLAS: tuple[DTypeName, ...] = ("float32", "float64")


def cpu_ceilings(threads: int) -> Iterator[Ceiling]:
    """Yields the ceilings as they are measured, a few seconds in all. CPUs report no theoretical ones."""
    yield from _bandwidths(threads)
    for dtype in DTYPES_OF_BLAS:
        yield _arithmetic(dtype)


def _array_bytes() -> int:
    wanted = max(MIN_ARRAY_BYTES, CACHES_FULL * last_cache_bytes())
    free = available_bytes()
    return wanted if free is None else min(wanted, free // MEMORY_SHARE)


def _bandwidths(threads: int) -> Iterator[Ceiling]:
    count = _array_bytes() // 8
    a, b, c = np.zeros(count), np.ones(count), np.ones(count)

    def copy(part: slice) -> None:
        np.positive(b[part], out=a[part])  # by vector instructions; copyto's memcpy is the slower here

    def add(part: slice) -> None:
        np.add(b[part], c[part], out=a[part])

    with ThreadPoolExecutor(threads) as pool:
        for name, moved, arrays in (("dram_copy", copy, 2), ("dram_add", add, 3)):
            times_us = _times_us(_shared_out(pool, threads, count, moved), COPIES)
            note = f"{arrays} arrays of {count * 8 >> 20} MiB, {threads} threads; bytes read and written are counted."
            yield _ceiling(name, "GB/s", arrays * count * 8, times_us, note)


def _shared_out(pool: ThreadPoolExecutor, threads: int, count: int, move: Callable[[slice], None]) -> Callable[[], Any]:
    """Divides the work into one piece for each thread; numpy releases the GIL while it copies."""
    step = -(-count // threads)
    parts = [slice(start, start + step) for start in range(0, count, step)]
    return lambda: list(pool.map(move, parts))


def _arithmetic(dtype: DTypeName) -> Ceiling:
    """The best of several sizes."""
    return max((_product(dtype, size) for size in SIZES), key=lambda ceiling: ceiling.value or 0.0)


def _product(dtype: DTypeName, size: int) -> Ceiling:
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal((size, size)).astype(dtype) for _ in range(2))
    c: Array = np.empty_like(a)
    times_us = _times_us(lambda: np.matmul(a, b, out=c), PRODUCTS)
    note = f"BLAS at N = {size}, the fastest of {', '.join(map(str, SIZES))}; normal data."
    return _ceiling(f"gemm_{dtype}", "GFLOPS", 2 * size**3, times_us, note, dtype=dtype)


def _ceiling(name: str, unit: Any, amount: int, times_us: list[float], note: str, **more: Any) -> Ceiling:
    """By the median time. 10³ of an amount in a microsecond are 10⁹ in a second."""
    times = summarize(times_us)
    return Ceiling(name=name, unit=unit, value=amount / times.median / 1e3, time_us=times, note=note, **more)


def _times_us(action: Callable[[], Any], count: int) -> list[float]:
    """After one that is not counted."""
    action()
    found = []
    for _ in range(count):
        started_ns = time.perf_counter_ns()
        action()
        found.append((time.perf_counter_ns() - started_ns) / 1e3)
    return found
