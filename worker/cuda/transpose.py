"""Transposes matrices on the device, for kernels that need their operands contiguous along k."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from kernels.model.arrange import MAX_GRID_Z
from kernels.model.groups import tiles
from kernels.model.numerics import DTYPES, DTypeName
from worker.cuda.calls import Arguments, Call
from worker.cuda.compile import Compiler
from worker.cuda.memory import DeviceMatrix
from worker.cuda.pitch import Layout, layout
from worker.cuda.sources import TRANSPOSE_THREADS, TRANSPOSE_TILES, transpose_program

FROM, TO = 0, 1  # of the arguments


def transpose_function(compiler: Compiler, dtype: DTypeName, *, gated: bool = False) -> Any:
    """The transposition for elements of this size. Raises KernelUnavailable."""
    return compiler.function(transpose_program(DTYPES[dtype].itemsize, gated=gated), "transpose")


def transposed_layout(at: Layout, *, in_groups: bool) -> Layout:
    """The layout of a matrix's transpose."""
    return layout(at.dtype, (at.batch, at.columns, at.rows), in_groups=in_groups)


def transposition(function: Any, at: Layout, to: Layout, *, gated: bool = False) -> Call | None:
    """Writes the transpose of each matrix of the batch; what pads `to` is left as it is. None for an empty matrix. A
    gated one has the address of the word that it looks at as its last argument, and may begin while what is before it
    ends."""
    tile = TRANSPOSE_TILES[at.itemsize]
    blocks = tiles(at.rows, tile) * tiles(at.columns, tile)
    if not blocks:
        return None
    sizes = (at.rows, at.columns, at.pitch, to.pitch, at.stride, to.stride, at.batch)
    gate = (np.uint64(0),) if gated else ()
    arguments = Arguments.of((np.uint64(0), np.uint64(0), *map(np.int64, sizes), *gate))
    grid = (blocks, 1, min(at.batch, MAX_GRID_Z))
    return Call(function, grid, (TRANSPOSE_THREADS, 1, 1), arguments, is_dependent=gated)


def transpose(function: Any, matrix: DeviceMatrix, to: DeviceMatrix) -> None:
    """Once, on the current stream."""
    call = transposition(function, matrix.layout, to.layout)
    if call is not None:
        call.arguments.set(FROM, matrix.address)
        call.arguments.set(TO, to.address)
        call.put(cupy.cuda.get_current_stream().ptr)
