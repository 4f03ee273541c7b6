"""What is made of a trace: instructions of warps, sectors of memory, banks of shared memory, and one whole trace."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.model.kernel import CudaKernel
from tests.emulation.programs import compiler
from tools.kernels import trace as traced
from tools.kernels.access import summed_up
from tools.kernels.model import Model


def loads(offsets: Iterable[int], size: int = 4, *, space: int = traced.A, block: int = 0) -> traced.Accesses:
    """One load of each thread, from thread 0 on."""
    rows = [(thread, block, 0, space, size, offset) for thread, offset in enumerate(offsets)]
    return np.array(rows, traced.ACCESS)


LANES = range(32)


@pytest.mark.parametrize(
    ("offsets", "size", "fetched", "asked"),
    [
        ([4 * lane for lane in LANES], 4, 128, 128),  # side by side
        ([0 for lane in LANES], 4, 32, 4),  # all the same
        ([4096 * lane for lane in LANES], 4, 1024, 128),  # down a column
        ([16 * lane for lane in LANES], 16, 512, 512),  # 16 bytes a lane
        ([4 + 4 * lane for lane in LANES], 4, 160, 128),  # not aligned
        ([8 * lane for lane in LANES], 4, 256, 128),  # every other element
        ([4 * (lane % 16) + 4096 * (lane // 16) for lane in LANES], 4, 128, 128),  # two half rows
    ],
)
def test_a_load_fetches_whole_sectors(offsets: list[int], size: int, fetched: int, asked: int) -> None:
    assert traced.fetched_bytes(loads(offsets, size)) == fetched
    assert traced.asked_bytes(loads(offsets, size)) == asked


def test_instructions_count_apart() -> None:
    """The same sector again, by the same warp or another one, is fetched again."""
    once = loads([4 * lane for lane in LANES])
    assert traced.fetched_bytes(np.concatenate([once, once])) == 256
    assert traced.fetched_bytes(loads([4 * (thread % 32) for thread in range(64)])) == 256
    other_block = loads([4 * lane for lane in LANES], block=1)
    assert traced.fetched_bytes(np.concatenate([once, other_block])) == 256
    assert len(traced.first_instruction(np.concatenate([once, other_block, once]))) == 32


@pytest.mark.parametrize(
    ("offsets", "size", "turns", "least"),
    [
        ([4 * lane for lane in LANES], 4, 1, 1),  # a bank each
        ([0 for lane in LANES], 4, 1, 1),  # one word for all
        ([128 * lane for lane in LANES], 4, 32, 1),  # all in one bank
        ([132 * lane for lane in LANES], 4, 1, 1),  # a longer row against that
        ([8 * lane for lane in LANES], 4, 2, 1),  # every other bank
        ([2 * lane for lane in LANES], 2, 1, 1),  # two elements a word
        ([8 * lane for lane in LANES], 8, 2, 2),  # half a warp at once
        ([16 * lane for lane in LANES], 16, 4, 4),  # a quarter
        ([128 * lane for lane in LANES], 16, 32, 4),
        ([16 * (lane % 2) for lane in LANES], 16, 4, 4),
    ],
)
def test_banks_serve_a_word_each_at_a_time(offsets: list[int], size: int, turns: int, least: int) -> None:
    assert traced.bank_turns(loads(offsets, size, space=traced.SHARED)) == (turns, least)
    twice = np.concatenate([loads(offsets, size), loads(offsets, size)])
    assert traced.bank_turns(twice) == (2 * turns, 2 * least)


def test_nothing_takes_no_turns() -> None:
    assert traced.bank_turns(loads([])) == (0, 0)
    assert traced.fetched_bytes(loads([])) == 0


def test_elements_are_found_by_row_and_column() -> None:
    step = 4 * traced.ROW_STEP
    found = traced.elements(loads([step + 8, 0, 0], 8), 4)
    assert found.tolist() == [[0, 0], [0, 1], [1, 2], [1, 3]]


def model(name: str, **config: int) -> Model:
    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    return Model(kernel, "float32", kernel.resolve_config(config))


def test_the_trace_of_a_kernel_whose_accesses_are_known() -> None:
    """One thread an element: two loads for a multiply-add, of which a warp's B is a line and its A one element."""
    compiler()
    access = summed_up(model("naive", block_m=2, block_n=32), "")
    assert access.lanes_a == tuple((lane, 0, 0, 1) for lane in LANES)
    assert access.lanes_b == tuple((lane, 0, lane, 1) for lane in LANES)
    assert (access.c_of_warp, access.c_of_thread) == (((0, 0, 1, 32),), ((0, 0, 1, 1),))
    assert (access.bytes_loaded, access.bytes_fetched) == (8, (128 + 32) / 32)
    assert access.used == round((128 + 4) / (128 + 32), 4)
    assert (access.bytes_read, access.conflicts) == (0, None)


def test_the_trace_of_a_kernel_with_shared_tiles() -> None:
    compiler()
    access = summed_up(model("shared_tiled", tile=16), "")
    assert access.lanes_a == access.lanes_b == tuple((lane, lane // 16, lane % 16, 1) for lane in LANES)
    assert access.c_of_warp == ((0, 0, 2, 16),)
    assert (access.bytes_loaded, access.bytes_fetched, access.used) == (0.5, 0.5, 1)
    assert (access.bytes_read, access.conflicts) == (8, 1)
