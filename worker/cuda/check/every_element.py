"""Every element of a product of little depth against its sum in float64, on the device
(`worker/cuda/src/direct.cu`)."""

from __future__ import annotations

import cupy
import numpy as np

from jobs.formats.elements import Array
from kernels.model.arrange import MAX_GRID_Z
from worker.check.row_errors import RowErrors
from worker.cuda.check.matrices import CheckedMatrices
from worker.cuda.results import DeviceResults, as_parameter, float_word
from worker.cuda.sources import direct_program

TILE, THREADS = 64, 256  # rows and columns of a block, and its threads


def check_every_element(matrices: CheckedMatrices, grants: tuple[float, float, float, float]) -> RowErrors:
    """For floats; m and n are at least 1. With `grants` α, β, γ and δ an element is granted an error of
    α·Σ|ab| + β·√Σ(ab)² + γ·|Σab| + δ. Errors that cannot be computed are infinite. The time is in proportion to k:
    meant for k of at most 64."""
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
    parameter = as_parameter([*pointers, *sizes, b.shape[0], batch, *map(float_word, grants)])
    function = matrices.compiler.function(direct_program(a.dtype, (a.transposed, b.transposed)), "direct")
    blocks = -(-m // TILE) * -(-n // TILE)
    function((blocks, 1, min(batch, MAX_GRID_Z)), (THREADS, 1, 1), (parameter,))
    data, begin = DeviceResults(matrices.compiler, memory, 0, size).start().wait(), 0
    arrays: list[Array] = []
    for shape, dtype in zip(shapes, (np.float64, np.bool_, np.bool_, np.bool_), strict=True):
        arrays.append(np.frombuffer(data, dtype, shape[0] * shape[1], begin).reshape(shape))
        begin += arrays[-1].nbytes
    return RowErrors(*arrays)
