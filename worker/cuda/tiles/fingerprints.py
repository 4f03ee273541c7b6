"""Fingerprints of parts of matrices on the device: the twin of `worker/check/fingerprint.py`. Real and imaginary parts
of complex elements are elements here, too."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from kernels.model.numerics import DTYPES
from worker.cuda.compile import Compiler
from worker.cuda.complex.arrangement import real_layout
from worker.cuda.memory import DeviceMatrix
from worker.cuda.pitch import Layout
from worker.cuda.sources import fingerprint_program
from worker.cuda.tiles.host import HostMemory, Part

THREADS, ROWS, MAX_ITEMS = 256, 64, 1024  # of a block, as in fingerprint.cu; and blocks along the batch
COLUMNS = MappingProxyType({1: 8, 2: 4, 4: 4, 8: 2})  # of a thread, by the bytes of an element


class PartOnDevice(NamedTuple):
    """Where a part lies, in elements, and which part of the stored matrix it is: rows are counted through the batch."""

    address: int
    itemsize: int
    pitch: int
    stride: int  # from one item to the next, here
    items: int
    rows: int
    columns: int
    rows_of_item: int  # from one item to the next, in the stored matrix
    row: int  # of its first element, there
    column: int


def part_of_panel(address: int, layout: Layout, rows_of_item: int, row: int, column: int) -> PartOnDevice:
    if DTYPES[layout.dtype].is_complex:
        return part_of_panel(address, real_layout(layout), rows_of_item, row, 2 * column)
    return PartOnDevice(
        address,
        layout.itemsize,
        layout.pitch,
        layout.stride,
        layout.batch,
        layout.rows,
        layout.columns,
        rows_of_item,
        row,
        column,
    )


def panel_fingerprint(
    compiler: Compiler, matrix: DeviceMatrix, part: Part, memory: HostMemory, seed: int, total: int
) -> None:
    """The fingerprint of a part of a stored matrix that is a matrix of its own on the device."""
    row = part.items.start * memory.rows + part.rows.start
    lies = part_of_panel(matrix.address, matrix.layout, memory.rows, row, part.columns.start)
    launch_fingerprint(compiler, lies, seed, total)


def launch_fingerprint(compiler: Compiler, part: PartOnDevice, seed: int, total: int) -> None:
    """Adds the part's to the word at the address `total`, on the current stream."""
    if not part.items * part.rows * part.columns:
        return
    numbers = part.pitch, part.stride, part.rows, part.columns, part.items, part.rows_of_item, part.row, part.column
    arguments = (np.uint64(part.address), *map(np.int64, numbers), np.uint64(seed), np.uint64(total))
    grid = -(-part.columns // (THREADS * COLUMNS[part.itemsize])), -(-part.rows // ROWS), min(part.items, MAX_ITEMS)
    compiler.function(fingerprint_program(part.itemsize), "fingerprint")(grid, (THREADS, 1, 1), arguments)
