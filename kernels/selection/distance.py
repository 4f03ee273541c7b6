"""The distance of two products in doublings: at a small distance, speeds relative to a library's differ little.

They change slowly with m, n and k, and jump with how rows are aligned, since tensor cores are fed 16 bytes at a time:
rows of n and k elements that are whole runs of 16 bytes, of 8, or of one element are multiplied at speeds that differ
several times. A library at its best pads sizes with zeros, which aligns them, but not small ones, nor by much. So
alignment counts twice, of sizes as they are and as the library may pad them, by steps of two. On CUDA cores, which
multiply float32 element by element, it does not count.
"""

from __future__ import annotations

from functools import lru_cache
from math import dist, log2

from kernels.model.numerics import DTYPES, AccuracyName, DTypeName, Problem
from kernels.model.padding import MAX_PAD, padded_size

RUN_BYTES = 16  # in runs of so many bytes kernels move rows that are whole runs; others take longer
# Doublings of a size that an alignment twice as large is worth, as padded and as it is (decision 66).
PADDED_STEP, PLAIN_STEP = 2.0, 1.0
SIZES, MOST_COORDINATES = 4, 8  # coordinates that are sizes, and with those that are alignments
Place = tuple[float, ...]
_Shape = tuple[int, int, int, int]


def place_of(problem: Problem, accuracy: AccuracyName) -> Place:
    """Coordinates of a product among those of its type, in doublings. `accuracy`: of the class that is asked for."""
    return place_at((problem.m, problem.n, problem.k, problem.batch), problem.dtype, accuracy != "fp32")


@lru_cache(maxsize=16_384)
def place_at(shape: _Shape, dtype: DTypeName, by_alignment: bool) -> Place:
    _, n, k, _ = shape
    itemsize = DTYPES[dtype].itemsize
    steps = (
        step * _aligned(size, itemsize)
        for extent in (n, k)
        for step, size in ((PADDED_STEP, padded_size(extent, MAX_PAD, itemsize)), (PLAIN_STEP, extent))
    )
    return *(_doublings(extent) for extent in shape), *(steps if by_alignment else ())


def _doublings(extent: int) -> float:
    """Of 1. What is empty is as near to others as if it were 1."""
    return log2(max(extent, 1))


def depth_of(problem: Problem) -> Place:
    """What the number of parts that a library cuts k into depends on: how much of a device its tiles fill, and k."""
    return _doublings(problem.m * problem.n * problem.batch), _doublings(problem.k)


def doublings(one: Place, other: Place) -> float:
    """1 where one side of one product is twice that of the other, and they are aligned alike."""
    return dist(one, other)


def _aligned(size: int, itemsize: int) -> int:
    """How often the largest power of two that divides a row of `size` elements doubles one, to RUN_BYTES at most."""
    run_elements = max(RUN_BYTES // itemsize, 1)
    return (min(size & -size, run_elements)).bit_length() - 1


def whole_runs(problem: Problem) -> bool:
    """Whether rows of k and of n elements are whole runs of 16 bytes."""
    size = DTYPES[problem.dtype].itemsize
    return problem.k * size % RUN_BYTES == 0 and problem.n * size % RUN_BYTES == 0
