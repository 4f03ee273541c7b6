"""The worker's own kernels, in the emulation: single elements for the check, and the transposition of operands."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.groups import tiles
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTYPES, DTypeName
from tests.emulation.launches import Layout, Memory, Run, execute
from tests.emulation.programs import Emulator
from tests.support.kernels.products import matrix, stored
from worker.check.elements import core
from worker.check.fingerprint import fingerprint_of_items
from worker.check.host_matrix import HostMatrix
from worker.cuda.sources import (
    TRANSPOSE_THREADS,
    TRANSPOSE_TILES,
    fingerprint_program,
    gather_program,
    transpose_program,
)

THREADS = 64
FINGERPRINT_THREADS = 256  # as in fingerprint.cu
CHECKED: list[tuple[DTypeName, bool]] = [
    ("float16", False),
    ("bfloat16", True),
    ("float32", True),
    ("float64", False),
    ("int8", True),
    ("int32", False),
    ("float8_e4m3", True),
]
TRANSPOSED: list[DTypeName] = ["int8", "float16", "float32", "float64"]
# Chunks whole in both matrices, in one, in none; less than a tile, and several with ends of all lengths.
TRANSPOSITIONS = [
    (1, 1, 1, 0, 0),
    (1, 128, 256, 0, 0),
    (3, 150, 200, 8, 16),
    (2, 37, 300, 4, 11),
    (2, 261, 70, 2, 3),
    (1, 5, 31, 1, 0),
]  # batch, rows, columns, elements between rows of the matrix and of the transposed one


def spaced(matrices: Array, gap: int = 3) -> Memory:
    """With so many elements between rows and one row more between matrices."""
    batch, rows, columns = matrices.shape
    pitch = columns + gap
    return Memory((batch, rows, columns), matrices.dtype, Layout(pitch, (rows + 1) * pitch), matrices.tobytes())


def elements_of(batch: int, rows: int, columns: int, dtype: DTypeName, transposed: bool) -> Array:
    """As the matrix is stored, a NaN among them."""
    elements = matrix((batch, columns, rows) if transposed else (batch, rows, columns), dtype, np.random.default_rng(1))
    if not DTYPES[dtype].is_integer:
        elements[-1, 0, 0] = stored(np.array(np.nan), dtype)
    return elements


@pytest.mark.parametrize(("dtype", "transposed"), CHECKED)
def test_the_check_s_single_elements(dtype: DTypeName, transposed: bool, emulator: Emulator) -> None:
    compiled = emulator.compile(gather_program(dtype), "gather")
    elements = elements_of(1, 9, 14, dtype, transposed)
    rows, columns = (np.random.default_rng(3).integers(0, size, 100) for size in (9, 14))
    memory = spaced(elements)
    steps = (1, memory.layout.pitch) if transposed else (memory.layout.pitch, 1)
    memories = (memory, Memory.flat(rows), Memory.flat(columns), Memory.flat(np.zeros(100), is_result=True))
    launch = Launch((-(-100 // THREADS), 1, 1), (THREADS, 1, 1))
    ((found,),) = execute(compiled, [Run(launch, memories, (*steps, 100))])
    expected = HostMatrix(core(elements, transposed=transposed), dtype).elements(0, rows, columns)
    np.testing.assert_array_equal(found.reshape(-1), expected)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_the_fingerprint_of_a_part(dtype: DTypeName, emulator: Emulator) -> None:
    """Of three items of a batch, with gaps between rows and between items; more items than blocks along the batch. Rows
    begin at any element, and then where whole chunks can be read."""
    compiled = emulator.compile(fingerprint_program(DTYPES[dtype].itemsize), "fingerprint")
    elements = elements_of(3, 60, 1030, dtype, transposed=False)
    launch = Launch((3, 1, 2), (FINGERPRINT_THREADS, 1, 1))
    runs = []
    for gap in (3, 10):
        memory, total = spaced(elements, gap), Memory.flat(np.zeros(1, np.uint64), is_result=True)
        numbers = (memory.layout.pitch, memory.layout.stride, 60, 1030, 3, 90, 5, 3, 77)
        runs.append(Run(launch, (memory, total), numbers))
    expected = fingerprint_of_items(elements, 77, item=0, row=5, column=3, rows=90)
    for (found,) in execute(compiled, runs):
        assert int(found.reshape(-1).view(np.uint64)[0]) == expected


@pytest.mark.parametrize("dtype", TRANSPOSED)
def test_the_transposition(dtype: DTypeName, emulator: Emulator) -> None:
    itemsize = DTYPES[dtype].itemsize
    compiled = emulator.compile(transpose_program(itemsize), "transpose")
    runs, expected = [], []
    for order, (batch, rows, columns, gap, transposed_gap) in enumerate(TRANSPOSITIONS):
        elements = matrix((batch, rows, columns), dtype, np.random.default_rng(order))
        memory, pitch = spaced(elements, gap), rows + transposed_gap
        to = Memory((batch, columns, rows), STORAGE_DTYPES[dtype], Layout(pitch, columns * pitch), b"", True)
        sizes = (rows, columns, memory.layout.pitch, to.layout.pitch, memory.layout.stride, to.layout.stride, batch)
        blocks = tiles(rows, TRANSPOSE_TILES[itemsize]) * tiles(columns, TRANSPOSE_TILES[itemsize])
        runs.append(Run(Launch((blocks, 1, min(batch, 2)), (TRANSPOSE_THREADS, 1, 1)), (memory, to), sizes, order))
        expected.append(elements.swapaxes(1, 2))
    for (found,), transposed in zip(execute(compiled, runs), expected, strict=True):
        np.testing.assert_array_equal(found.view(transposed.dtype), transposed)
