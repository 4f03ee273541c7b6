"""Element orders: every tiling of the transposer gives what numpy gives, in bounded memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.errors import InvalidMatrix
from jobs.formats import element_order
from jobs.formats.element_order import in_storage_order
from jobs.formats.parser import MatrixHeader, OctetParser, check_shape
from tests.support.http.bodies import Collector, Kept, parse, stored


@settings(deadline=None, max_examples=300)
@given(
    shape=st.lists(st.integers(0, 9), min_size=2, max_size=3).map(tuple),
    dtype=st.sampled_from(["<f2", ">f4", "<i4", ">f8", "i1"]),
    tile_bytes=st.integers(1, 200),
    piece_bytes=st.sampled_from([8, 16, 24]),
    cuts=st.lists(st.integers(0, 6000), max_size=9),
)
def test_fortran_order_of_any_shape_through_tiles_of_any_size(
    shape: tuple[int, ...], dtype: str, tile_bytes: int, piece_bytes: int, cuts: list[int]
) -> None:
    array = np.arange(np.prod(shape)).astype(dtype).reshape(shape, order="F")
    body = array.tobytes(order="F")
    kept = Kept()
    sizes = {"TILE_BYTES": tile_bytes, "PIECE_BYTES": piece_bytes, "SLAB_BYTES": tile_bytes}
    with pytest.MonkeyPatch.context() as patch:
        for name, size in sizes.items():
            patch.setattr(element_order, name, size)
        way = in_storage_order(
            kept,
            shape,
            array.itemsize,
            fortran_order=True,
            big_endian=dtype.startswith(">"),
            staging_dir=None,
        )
        at = 0
        for cut in sorted(cut % (len(body) + 1) for cut in cuts):
            way.entry.write(body[at:cut])
            at = cut
        way.entry.write(body[at:])
        way.finish()
        way.close()
    assert bytes(kept.data) == stored(array)


def test_a_small_matrix_never_touches_the_disk(tmp_path: Path) -> None:
    array = np.arange(600.0).reshape(20, 30)
    kept = Kept()
    nowhere = tmp_path / "missing"
    way = in_storage_order(kept, (20, 30), 8, fortran_order=True, big_endian=False, staging_dir=nowhere)
    way.entry.write(array.tobytes(order="F"))
    way.finish()
    assert bytes(kept.data) == array.tobytes()


def test_octets_are_passed_on_and_counted() -> None:
    header = MatrixHeader("bfloat16", (2, 3))
    collector = parse(lambda sink: OctetParser(header, sink, body_bytes=12), b"abcdefghijkl", (5, 7))
    assert collector.by_name == {"": b"abcdefghijkl"}
    with pytest.raises(InvalidMatrix, match="12 bytes of elements, but 11 follow"):
        parse(lambda sink: OctetParser(header, sink, body_bytes=11), b"abcdefghijk")
    with pytest.raises(InvalidMatrix, match="1 bytes of elements are missing"):
        parse(lambda sink: OctetParser(header, sink), b"abcdefghijk")
    with pytest.raises(InvalidMatrix, match="after the last element"):
        parse(lambda sink: OctetParser(header, sink), b"abcdefghijklm")


def test_an_empty_matrix_is_opened_without_a_byte() -> None:
    collector = parse(lambda sink: OctetParser(MatrixHeader("float32", (0, 7)), sink), b"")
    assert [header.shape for header, _ in collector.opened] == [(0, 7)]


@pytest.mark.parametrize("shape", [(), (3,), (1, 2, 3, 4), (-1, 2), (2**61, 1), (0, 2**62), (2**40, 2**40)])
def test_shapes_that_are_none(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidMatrix):
        check_shape("float32", shape)
    with pytest.raises(InvalidMatrix):
        OctetParser(MatrixHeader("float32", shape), Collector())


@pytest.mark.parametrize("shape", [(1, 1), (0, 5), (3, 0, 4), (2**60, 1)])
def test_shapes_that_are(shape: tuple[int, ...]) -> None:
    assert check_shape("float32", list(shape)) == shape
