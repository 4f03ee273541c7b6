"""Which columns are whose where an operand comes from registers, by the source's own arithmetic."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from jobs.matrices import Array
from kernels.kernel import SOURCE_DIR
from tests.emulation.programs import ENVIRONMENT, FLAGS, HERE, compiler

WARPS, LANES, ROWS, ROW_BYTES, CHUNK_BYTES, BANKS = 4, 32, 8, 128, 16, 32
MACROS = ("DTYPE_FLOAT32", "TRANSPOSE_A=0", "TRANSPOSE_B=0", "BLOCK_M=128", "BLOCK_N=64", "STAGES=3", "CLUSTER=1")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Array:
    """In bytes, by warp, lane and row: of the first of two neighbouring words."""
    program = tmp_path_factory.mktemp("across") / "across"
    macros = [f"-D{macro}" for macro in MACROS]
    command: list[str | Path] = [compiler(), *FLAGS, *macros, f"-I{SOURCE_DIR}", "-o", program, HERE / "across.cpp"]
    subprocess.run(command, check=True, env=ENVIRONMENT)
    done = subprocess.run([program], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    lines = np.array([line.split() for line in done.stdout.splitlines()], dtype=np.int64)
    found = np.full((WARPS, LANES, ROWS), -1)
    found[lines[:, 0], lines[:, 1], lines[:, 2]] = lines[:, 3]
    return found


def column_of(place: int) -> int:
    """Of a word, by the 128-byte swizzle: a row's chunks of 16 bytes are permuted by the row's number modulo 8."""
    row, within = divmod(place, ROW_BYTES)
    return ((within // CHUNK_BYTES) ^ row % 8) * CHUNK_BYTES // 4 + within % CHUNK_BYTES // 4


def test_two_warps_share_out_the_columns_of_a_box(places: Array) -> None:
    """A thread has the same two in every row, and so have the four threads that hold a row of the instruction."""
    for first in range(0, WARPS, 2):
        columns = Counter(column_of(place) + i for place in places[first : first + 2, ::4, 0].ravel() for i in (0, 1))
        assert columns == {column: 1 for column in range(ROW_BYTES // 4)}
    for warp in range(WARPS):
        for lane in range(LANES):
            assert len({column_of(place) for place in places[warp, lane // 4 * 4 : lane // 4 * 4 + 4].ravel()}) == 1


@pytest.mark.parametrize(("factor", "first"), [(1, 0), (1, 4), (2, 0), (2, 1)])
def test_half_a_warp_meets_in_no_bank(places: Array, factor: int, first: int) -> None:
    """Eight bytes of each thread, of which hardware takes half a warp at once: reads of rows lane % 4 and of those four
    further on, writes of rows lane % 4 · 2 and of the next."""
    for warp in range(WARPS):
        for half in range(2):
            lanes = range(half * LANES // 2, (half + 1) * LANES // 2)
            at_once = [int(places[warp, lane, lane % 4 * factor + first]) for lane in lanes]
            assert len({(place // 4 + i) % BANKS for place in at_once for i in (0, 1)}) == BANKS


def test_rows_four_further_on_differ_in_one_bit_of_the_chunk(places: Array) -> None:
    """The kernel's main loop has two places by a thread, not eight."""
    np.testing.assert_array_equal(places[:, :, 4:], (places[:, :, :4] ^ 64) + 4 * ROW_BYTES)
