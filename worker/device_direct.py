"""Every element of a product of little depth against its sum in float64, on the device (`worker/cuda/direct.cu`)."""

from __future__ import annotations

from dataclasses import dataclass

import cupy
import numpy as np

from jobs.matrices import Array
from kernels.arrange import MAX_GRID_Z
from worker.compile import Compiler
from worker.device_results import Results, as_parameter, float_word
from worker.device_sketch import Matrices
from worker.sources import direct_program

TILE, THREADS = 64, 256  # rows and columns of a block, and its threads


@dataclass(frozen=True, slots=True)
class Grants:
    """An element is granted an error of alpha·Σ|ab| + beta·√Σ(ab)² + gamma·|Σab| + delta."""

    alpha: float
    beta: float
    gamma: float
    delta: float


@dataclass(frozen=True, slots=True)
class Direct:
    """Elements of bad rows and columns, and those that are not finite, are left out of `worst`."""

    worst: Array  # float64 (batch, m): the largest error in what is granted; infinite where that cannot be told
    bad_rows: Array  # bool (batch, m): rows of A with a NaN or an infinity
    bad_columns: Array  # bool (batch or 1, n): such columns of B
    odd_columns: Array  # bool (batch, n): not finite in C in some row, though A's row and B's column are


@dataclass(frozen=True, slots=True)
class PendingDirect:
    """Launched."""

    _shapes: tuple[tuple[int, int], ...]  # of the arrays
    _results: Results

    def result(self) -> Direct:
        """Waits for the device."""
        data, begin = self._results.wait(), 0
        arrays: list[Array] = []
        for shape, dtype in zip(self._shapes, (np.float64, np.bool_, np.bool_, np.bool_), strict=True):
            arrays.append(np.frombuffer(data, dtype, shape[0] * shape[1], begin).reshape(shape))
            begin += arrays[-1].nbytes
        return Direct(*arrays)


def launch_direct(compiler: Compiler, matrices: Matrices, grants: Grants) -> PendingDirect:
    """For floats; m and n are at least 1. The time is in proportion to k: meant for k of at most 64."""
    a, b, c = matrices
    batch, m, n = c.shape
    shapes = ((batch, m), (batch, m), (b.shape[0], n), (batch, n))
    counts = [rows * columns for rows, columns in shapes]
    size = 8 * counts[0] + sum(counts[1:])
    memory = cupy.cuda.alloc(size)
    memory.memset_async(0, size)
    places = [0, 8 * counts[0]]
    places += [places[1] + counts[1], places[1] + counts[1] + counts[2]]
    pointers = [each.address for each in matrices] + [memory.ptr + place for place in places]
    sizes = [m, n, a.shape[2], *(each.pitch for each in matrices), *(each.stride for each in matrices)]
    granted = (grants.alpha, grants.beta, grants.gamma, grants.delta)
    parameter = as_parameter([*pointers, *sizes, b.shape[0], batch, *map(float_word, granted)])
    function = compiler.function(direct_program(a.dtype, (a.turned, b.turned)), "direct")
    blocks = -(-m // TILE) * -(-n // TILE)
    function((blocks, 1, min(batch, MAX_GRID_Z)), (THREADS, 1, 1), (parameter,))
    return PendingDirect(shapes, Results(memory, 0, size))
