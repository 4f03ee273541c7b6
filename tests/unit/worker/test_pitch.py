"""How matrices lie on the device: every byte has its place, and padding stays small."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.formats.elements import STORAGE_DTYPES
from kernels.model.numerics import DTYPE_NAMES, DTYPES, DTypeName, Problem
from kernels.model.padding import MAX_PAD, WASTE
from worker.cuda.pitch import GROUP, IN_GROUPS, Layout, operand_layout, product_layout

SIZES = st.integers(0, 40) | st.sampled_from([128, 129])


@settings(deadline=None)
@given(
    dtype=st.sampled_from(DTYPE_NAMES),
    shape=st.tuples(SIZES, SIZES) | st.tuples(st.integers(1, 5), SIZES, SIZES),
    max_bytes=st.sampled_from([16, 64, 1000, 1 << 30]),
    last_bytes=st.sampled_from([0, 16, 40, 200]),
)
def test_pieces_take_every_byte_to_its_place_and_back(
    dtype: DTypeName, shape: tuple[int, ...], max_bytes: int, last_bytes: int
) -> None:
    """`last_bytes`: of the last piece at most, unless it is 0."""
    stored = np.random.default_rng(0).bytes(int(np.prod(shape)) * STORAGE_DTYPES[dtype].itemsize)
    layout = operand_layout(dtype, shape)
    device, back = bytearray(layout.bytes), bytearray(len(stored))
    pieces = layout.shrinking_pieces(max_bytes, last_bytes) if last_bytes else tuple(layout.pieces(max_bytes))
    assert not last_bytes or not pieces or 0 < pieces[-1].bytes <= last_bytes
    for piece in pieces:
        assert piece.bytes <= max_bytes
        assert piece.height == 1 or piece.width_bytes == layout.row_bytes
        for row in range(piece.height):
            to = piece.device_offset + row * layout.pitch_bytes
            source = piece.host_offset + row * piece.width_bytes
            device[to : to + piece.width_bytes] = stored[source : source + piece.width_bytes]
            back[source : source + piece.width_bytes] = stored[source : source + piece.width_bytes]
    assert len(device) == layout.bytes, "a piece reached past the matrix"
    assert bytes(back) == stored
    assert elements(layout, device) == stored
    order = [piece.host_offset for piece in pieces]
    assert order == sorted(order), "a product is read in stored order"


def elements(layout: Layout, device: bytearray) -> bytes:
    """What a kernel finds at the layout's places, in stored order."""
    wide = np.frombuffer(device, np.uint8).reshape(layout.batch, layout.kept_rows, layout.pitch_bytes)
    return wide[:, : layout.rows, : layout.row_bytes].tobytes()


@given(dtype=st.sampled_from(DTYPE_NAMES), rows=st.integers(1, 5000), columns=st.integers(1, 5000))
def test_rows_are_aligned_and_little_is_wasted(dtype: DTypeName, rows: int, columns: int) -> None:
    layout = operand_layout(dtype, (rows, columns))
    least = GROUP if dtype in IN_GROUPS else 1
    assert layout.columns <= layout.pitch
    assert (layout.pitch - columns) * layout.itemsize <= max(layout.row_bytes / WASTE, least)
    if layout.row_bytes >= WASTE * 256:
        assert layout.pitch_bytes % 256 == 0


@given(
    dtype=st.sampled_from(DTYPE_NAMES),
    shape=st.tuples(*[st.integers(1, 5)] * 3) | st.tuples(*[st.integers(1, 5000)] * 2),
)
def test_dense_rows_follow_each_other_without_a_gap(dtype: DTypeName, shape: tuple[int, ...]) -> None:
    dense = operand_layout(dtype, shape, dense=True)
    step = GROUP if dtype in IN_GROUPS else 1  # whole groups, without which cuBLAS does not multiply bytes
    assert dense.columns <= dense.pitch < dense.columns + step and dense.pitch % step == 0
    problem = Problem(shape[-2], shape[-1], 7, dtype, 3)
    product = product_layout(problem, dense=True)
    assert product.pitch - product.columns < step


@given(dtype=st.sampled_from(IN_GROUPS), m=SIZES.filter(bool), n=SIZES.filter(bool), batch=st.integers(1, 3))
def test_products_of_bytes_have_room_for_whole_groups(dtype: DTypeName, m: int, n: int, batch: int) -> None:
    layout = product_layout(Problem(m, n, 1, dtype, batch, a_batched=batch > 1))
    assert layout.dtype == DTYPES[dtype].product
    assert layout.kept_rows % GROUP == 0 == layout.pitch % GROUP
    assert layout.kept_rows >= m and layout.pitch >= n


@given(
    dtype=st.sampled_from(DTYPE_NAMES),
    shape=st.tuples(*[st.integers(1, 5000)] * 2),
    pad=st.sampled_from([1, 8, 16, 32, 64]),
)
def test_a_matrix_has_room_for_zeros_up_to_multiples_of_what_libraries_like(
    dtype: DTypeName, shape: tuple[int, int], pad: int
) -> None:
    layout = operand_layout(dtype, shape)
    padded = layout.padded(pad)
    assert padded is not None or dtype in IN_GROUPS, "bytes are padded in groups, with less room"
    assert padded is None or (padded[0] <= layout.kept_rows and padded[1] <= layout.pitch)
    for size, to in zip(shape, padded or shape, strict=True):
        assert size <= to <= size + size // WASTE
        assert padded is None or size < WASTE * MAX_PAD or to % min(pad, 256 // layout.itemsize) == 0


@given(shape=st.tuples(*[st.integers(256, 5000)] * 2))
def test_dense_rows_and_batches_have_none(shape: tuple[int, int]) -> None:
    assert operand_layout("float32", (2, *shape)).padded(64) is None
    dense = operand_layout("float32", shape, dense=True)
    assert dense.padded(1) == shape and dense.padded(64) in (None, shape)
