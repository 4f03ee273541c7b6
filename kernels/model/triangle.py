"""Symmetric products, X·Xᵀ: only tiles on and below the diagonal are computed, and the others are mirrored
(`worker/cuda/src/mirror.cu`). BLAS calls this a rank-k update, `syrk`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from kernels.model.groups import tiles
from kernels.model.launch_plan import Launch, Mirror
from kernels.model.numerics import DTYPES, Problem

# Which of C's triangles the computed tiles cover: kernels that compute Cᵀ leave the upper one.
TriangleName = Literal["lower", "upper"]
TriangleOf = Callable[[Problem, Mapping[str, int]], TriangleName | None]
Clocks = Callable[[Problem, Mapping[str, int], int], float]
MULTIPROCESSORS = 132  # assumed for an unknown device
MIRROR_TILE = 64  # rows and columns for a block, as in mirror.cu
MIRROR_THREADS = 256
START_CLOCKS = 5_000  # of a launch behind another
BYTES_A_CLOCK = 1_000  # of C, half of them read and half written


def triangle_tiles(problem: Problem, rows: int, columns: int) -> int:
    """Tiles of so many rows and columns that have elements on or below the diagonal of C."""
    across = tiles(problem.n, columns)
    return sum(min(across, tiles((row + 1) * rows, columns)) for row in range(tiles(problem.n, rows)))


def whole(problem: Problem) -> Problem:
    """The problem, not marked as symmetric."""
    return replace(problem, symmetric=False) if problem.symmetric else problem


def triangle_flops(problem: Problem) -> int:
    """The operations as BLAS counts them: for the elements on and below the diagonal."""
    return problem.n * (problem.n + 1) * problem.k


def mirror_clocks(problem: Problem) -> float:
    """About how long mirroring takes."""
    size = DTYPES[problem.product_dtype].itemsize * problem.n * problem.n
    return START_CLOCKS + size / BYTES_A_CLOCK


def mirror_of(
    problem: Problem, config: Mapping[str, int], triangle: TriangleOf | None, clocks: Clocks | None
) -> Mirror | None:
    """The mirror pass after a kernel that computes one triangle of C in this config; None if the kernel computes all of
    C, because it has no triangular form or mirroring would cost more than it saves.
    """
    name = triangle(problem, config) if triangle is not None and problem.symmetric else None
    if name is None or clocks is None:
        return None
    all_of_it, of_triangle = (clocks(each, config, MULTIPROCESSORS) for each in (whole(problem), problem))
    if of_triangle + mirror_clocks(problem) >= all_of_it:
        return None
    return Mirror(_mirror_launch(problem), name == "lower")


def _mirror_launch(problem: Problem) -> Launch:
    """A block for each tile of the mirrored triangle and of the diagonal."""
    count = tiles(problem.n, MIRROR_TILE)
    return Launch((count * (count + 1) // 2, 1, 1), (MIRROR_THREADS, 1, 1))
