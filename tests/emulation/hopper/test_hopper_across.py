"""Which columns are whose where an operand comes from registers, by the source's own arithmetic."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from jobs.formats.elements import Array
from tests.emulation.programs import compile_host_program, output_of

HERE = Path(__file__).parent

WARPS, LANES, ROWS, ROW_BYTES, CHUNK_BYTES, BANKS = 4, 32, 8, 128, 16, 32
PLACES = WARPS * LANES * ROWS
MACROS = ("TRANSPOSE_A=0", "TRANSPOSE_B=0", "BLOCK_N=64", "STAGES=3", "CLUSTER=1")


def told(dtype: str, directory: Path, block_m: int = 128) -> list[list[int]]:
    """The program's lines, for elements of this type."""
    macros = [f"-D{macro}" for macro in (f"DTYPE_{dtype}", f"BLOCK_M={block_m}", *MACROS)]
    program = compile_host_program(HERE / "across.cpp", directory / dtype, *macros)
    return [list(map(int, line.split())) for line in output_of(program).splitlines()]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[int]]]:
    return {dtype: told(dtype, tmp_path_factory.mktemp("across")) for dtype in ("FLOAT32", "INT8")}


def places_of(lines: list[list[int]]) -> Array:
    """In bytes, by warp, lane and row: of the first of two neighbouring words."""
    found = np.full((WARPS, LANES, ROWS), -1)
    for warp, lane, row, place in lines[:PLACES]:
        found[warp, lane, row] = place
    return found


@pytest.fixture(scope="module")
def places(lines: dict[str, list[list[int]]]) -> Array:
    """Where words of B are read, and sums of its products written."""
    return places_of(lines["FLOAT32"])


@pytest.fixture(scope="module")
def places_of_sums(lines: dict[str, list[list[int]]]) -> Array:
    """Where sums of int8 products are written."""
    return places_of(lines["INT8"])


@pytest.fixture(scope="module")
def rows_given(lines: dict[str, list[list[int]]]) -> Array:
    """By warp and lane: where a row of 16 bytes begins whose address the lane gives, in the first 32 rows of a box."""
    return given(lines["INT8"])


def given(lines: list[list[int]]) -> Array:
    found = np.full((WARPS, LANES), -1)
    for warp, lane, place in lines[PLACES:]:
        found[warp, lane] = place
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


@pytest.mark.parametrize("first", [0, 1])
def test_sums_of_bytes_meet_in_no_bank(places_of_sums: Array, first: int) -> None:
    """Written as those of words are. A warp's 16 columns are neighbours, as its bytes of B are."""
    for warp in range(WARPS):
        for half in range(2):
            lanes = range(half * LANES // 2, (half + 1) * LANES // 2)
            at_once = [int(places_of_sums[warp, lane, lane % 4 * 2 + first]) for lane in lanes]
            assert len({(place // 4 + i) % BANKS for place in at_once for i in (0, 1)}) == BANKS
        columns = [column_of(place) for place in places_of_sums[warp, ::4, 0]]
        assert columns == [warp % 2 * 16 + pair * 2 for pair in range(LANES // 4)]


def test_eight_rows_of_bytes_meet_in_no_bank(rows_given: Array) -> None:
    """Of 16 bytes each: hardware takes a matrix at once. A warp reads its chunk in each of 32 rows, once."""
    for warp in range(WARPS):
        for first in range(0, LANES, ROWS):
            at_once = [int(place) // CHUNK_BYTES % ROWS for place in rows_given[warp, first : first + ROWS]]
            assert sorted(at_once) == list(range(ROWS))
        rows, within = np.divmod(rows_given[warp], ROW_BYTES)
        assert sorted(rows) == list(range(LANES))
        assert np.all((within // CHUNK_BYTES ^ rows % ROWS) == WARPS + warp)


def test_eight_rows_of_64_bytes_meet_in_no_bank(tmp_path: Path) -> None:
    """Of three warpgroups each has a box of its own, whose rows lie two by two, by the 64-byte swizzle."""
    rows_given = given(told("INT8", tmp_path, block_m=192)) - LANES * WARPS * ROW_BYTES // 2  # the first one's box
    for warp in range(WARPS):
        for first in range(0, LANES, ROWS):
            at_once = [int(place) // CHUNK_BYTES % ROWS for place in rows_given[warp, first : first + ROWS]]
            assert sorted(at_once) == list(range(ROWS))
        rows, within = np.divmod(rows_given[warp], ROW_BYTES // 2)
        assert sorted(rows) == list(range(LANES))
        assert np.all((within // CHUNK_BYTES ^ rows // 2 % 4) == warp)


def test_rows_four_further_on_differ_in_one_bit_of_the_chunk(places: Array) -> None:
    """The kernel's main loop has two places by a thread, not eight."""
    np.testing.assert_array_equal(places[:, :, 4:], (places[:, :, :4] ^ 64) + 4 * ROW_BYTES)
