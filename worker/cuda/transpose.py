"""The transposition of matrices on the device, for kernels that want their operands contiguous along k."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.model.arrange import MAX_GRID_Z, tiles
from kernels.model.numerics import DTYPES, DTypeName
from worker.cuda.compile import Compiler
from worker.cuda.dependent_launch import launch_dependent
from worker.cuda.memory import DeviceMatrix
from worker.cuda.pitch import Layout, layout
from worker.cuda.sources import TRANSPOSE_THREADS, TRANSPOSE_TILES, transpose_program


def transpose_function(compiler: Compiler, dtype: DTypeName, *, gated: bool = False) -> Any:
    """For elements of this size. Raises KernelUnavailable."""
    return compiler.function(transpose_program(DTYPES[dtype].itemsize, gated=gated), "transpose")


def transposed_layout(at: Layout, *, in_groups: bool) -> Layout:
    """Of the transpose of a matrix with this layout."""
    return layout(at.dtype, (at.batch, at.columns, at.rows), in_groups=in_groups)


def transpose(function: Any, matrix: DeviceMatrix, to: DeviceMatrix, gate: tuple[np.uint64, ...] = ()) -> None:
    """Writes the transpose of each matrix of the batch on the current stream; what pads `to` is left as it is. `gate`:
    the address of the word that a gated function looks at; such a one may begin while what is before it ends."""
    at = matrix.layout
    tile = TRANSPOSE_TILES[at.itemsize]
    blocks = tiles(at.rows, tile) * tiles(at.columns, tile)
    if blocks:
        sizes = (at.rows, at.columns, at.pitch, to.layout.pitch, at.stride, to.layout.stride, at.batch)
        arguments = (np.uint64(matrix.address), np.uint64(to.address), *map(np.int64, sizes), *gate)
        grid, block = (blocks, 1, min(at.batch, MAX_GRID_Z)), (TRANSPOSE_THREADS, 1, 1)
        if gate:
            launch_dependent(function, grid, block, arguments)
        else:
            function(grid, block, arguments)
