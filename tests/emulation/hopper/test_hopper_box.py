"""How 32-bit sums lie in a box of C, by the source's own arithmetic: each where the copy engine looks for it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from jobs.formats.elements import Array
from tests.emulation.programs import compile_host_program, output_of

HERE = Path(__file__).parent

ROWS, COLUMNS, ROW_BYTES, CHUNK_BYTES = 16, 32, 128, 16
LANES, SUMS, BANKS = 32, 16, 32


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Array:
    """Rows (lane, number of the store, place in bytes, first sum, second sum)."""
    program = compile_host_program(HERE / "box.cpp", tmp_path_factory.mktemp("box") / "box")
    return np.array([line.split() for line in output_of(program).splitlines()], dtype=np.int64)


def element_of(lane: int, number: int) -> tuple[int, int]:
    """Row and column of a thread's sum, by the PTX ISA's figure of wgmma's accumulator: of each 8 columns four sums."""
    return lane // 4 + number // 2 % 2 * 8, number // 4 * 8 + lane % 4 * 2 + number % 2


def place_of(row: int, column: int) -> int:
    """In bytes, by the 128-byte swizzle: a row's chunks of 16 bytes are permuted by the row's number modulo 8."""
    chunk, within = divmod(column * 4, CHUNK_BYTES)
    return row * ROW_BYTES + (chunk ^ row % 8) * CHUNK_BYTES + within


def test_every_element_lies_where_the_copy_engine_looks_for_it(stores: Array) -> None:
    found = {}
    for lane, _, place, first, second in stores.tolist():
        found[place], found[place + 4] = element_of(lane, first), element_of(lane, second)
    assert len(stores) * 2 == len(found) == ROWS * COLUMNS
    assert found == {place_of(row, column): (row, column) for row in range(ROWS) for column in range(COLUMNS)}


def test_half_a_warp_s_stores_meet_in_no_bank(stores: Array) -> None:
    """Eight bytes of each thread: hardware takes half of a warp at once."""
    for half in range(2):
        for number in range(SUMS // 2):
            at_once = stores[(stores[:, 0] // (LANES // 2) == half) & (stores[:, 1] == number)]
            banks = Counter(bank for place in at_once[:, 2] for bank in (place // 4 % BANKS, (place // 4 + 1) % BANKS))
            assert set(banks.values()) == {1} and len(banks) == BANKS
