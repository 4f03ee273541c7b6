"""The .npy parser against numpy's own files, and against files that lie."""

from __future__ import annotations

import io
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.errors import InvalidMatrix, InvalidRequest, UnsupportedDType
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.formats.npy import MAX_HEADER_BYTES, NpyParser, npy_header
from jobs.formats.parser import MatrixHeader
from kernels.model.numerics import DTypeName
from tests.support.http.bodies import Collector, npy, npy_fields, parse, saved_npy, stored

NPY_DTYPES: tuple[DTypeName, ...] = ("float16", "float32", "float64", "int8", "int32")
SHAPES = st.lists(st.integers(0, 6), min_size=2, max_size=3).map(tuple)
CUTS = st.lists(st.integers(0, 2**16), max_size=12)


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """Any array that .npy may bring: every element type, byte order and element order."""
    shape = draw(SHAPES)
    dtype = STORAGE_DTYPES[draw(st.sampled_from(NPY_DTYPES))].newbyteorder(draw(st.sampled_from("<>")))
    size = int(np.prod(shape)) * dtype.itemsize
    elements = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype)
    return elements.reshape(shape, order=draw(st.sampled_from(("C", "F"))))


@settings(deadline=None)
@given(arrays(), st.sampled_from([(1, 0), (2, 0), (3, 0)]), CUTS)
def test_what_numpy_writes_is_read_in_any_pieces(array: Array, version: tuple[int, int], cuts: list[int]) -> None:
    body = saved_npy(array, version)
    ((header, sink),) = parse(lambda sink: NpyParser(sink, body_bytes=len(body)), body, cuts).opened
    assert header.shape == array.shape
    assert STORAGE_DTYPES[header.dtype] == array.dtype.newbyteorder("<")
    assert bytes(sink.data) == stored(array)


@given(st.sampled_from(NPY_DTYPES), SHAPES)
def test_numpy_reads_what_is_written(dtype: DTypeName, shape: tuple[int, ...]) -> None:
    expected = np.arange(np.prod(shape)).reshape(shape).astype(STORAGE_DTYPES[dtype])
    header = npy_header(dtype, shape)
    assert len(header) % 64 == 0
    read = np.load(io.BytesIO(header + expected.tobytes()), allow_pickle=False)
    assert read.dtype == expected.dtype
    np.testing.assert_array_equal(read, expected)


def test_a_type_that_numpy_lacks_is_not_written() -> None:
    with pytest.raises(UnsupportedDType, match="application/x-safetensors"):
        npy_header("bfloat16", (2, 2))


HOSTILE_HEADERS = {
    "nothing in it": npy(""),
    "no dict": npy("[1, 2]"),
    "only minus signs": npy("-" * 9000),
    "minus signs for a shape": npy_fields(shape="-" * 9000),
    "an open bracket": npy("{'descr': '<f4', 'fortran_order': False, 'shape': ("),
    "many open brackets": npy("(" * 60_000),
    "an open string": npy("{'descr': '<f4"),
    "code": npy("__import__('os').abort()"),
    "a key too few": npy("{'descr': '<f4', 'shape': (2, 3)}"),
    "a key twice": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'shape': (2, 3)}"),
    "a key too many": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}"),
    "a key that is no string": npy("{[]: 1}"),
    "text behind the dict": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} + 1"),
    "a number for fortran_order": npy_fields(fortran_order="1"),
    "no axis": npy_fields(shape="()"),
    "one axis": npy_fields(shape="(6,)"),
    "four axes": npy_fields(shape="(1, 1, 2, 3)"),
    "sixteen thousand axes": npy_fields(shape=f"({'1,' * 16_000})"),
    "a list for a shape": npy_fields(shape="[2, 3]"),
    "negative": npy_fields(shape="(-2, 3)"),
    "bool": npy_fields(shape="(True, 3)"),
    "float": npy_fields(shape="(2.0, 3)"),
    "text": npy_fields(shape="('2', 3)"),
    "2^63": npy_fields(shape=f"({2**63}, 0)"),
    "2^64 and more": npy_fields(shape=f"({2**64 + 2}, 3)"),
    "a size of 60,000 digits": npy_fields(shape=f"({'9' * 60_000}, 3)"),
    "sizes that multiply past 2^64": npy_fields(shape="(4294967296, 4294967296)"),
    "an empty axis beside immense ones": npy_fields(shape=f"({2**62}, 0, 8)"),
    "not UTF-8": npy("", version=(3, 0))[:8] + b"\x02\x00\x00\x00\xff\xff",
    "version 4": b"\x93NUMPY\x04\x00\x00\x00{}",
    "version 1.1": b"\x93NUMPY\x01\x01\x00\x00{}",
    "a header of 4 GiB": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}",
    "a header just too long": b"\x93NUMPY\x02\x00" + (MAX_HEADER_BYTES + 1).to_bytes(4, "little"),
    "a pickle": pickle.dumps({"a": list(range(20))}),
    "a zip": b"PK\x03\x04" + bytes(60),
    "JSON": b'{"a": [[1, 2], [3, 4]]}',
}


@pytest.mark.parametrize("body", HOSTILE_HEADERS.values(), ids=HOSTILE_HEADERS)
def test_a_header_that_lies_opens_nothing(body: bytes) -> None:
    collector = Collector()
    with pytest.raises(InvalidMatrix), NpyParser(collector) as parser:
        parser.feed(body)
        parser.finish()
    assert collector.opened == []


REFUSED_TYPES = (
    "'|b1'", "'|u1'", "'<u2'", "'<u4'", "'<i2'", "'<i8'", "'<c32'", "'|c8'", "'<f16'", "'|O'", "'|V0'", "'<V2'",
    "'|S0'", "'<U4'", "'<M8[s]'", "'<m8'", "'f4'", "'=f4'", "'|f4'", "'float32'", "'<f4,<f4'", "''", "'<f4x'",
    "[('a', '<f4')]", "('<f4', (2,))", "()", "\"<f3\"",
)  # fmt: skip


@pytest.mark.parametrize("descr", REFUSED_TYPES)
def test_other_element_types_are_refused_with_those_taken(descr: str) -> None:
    taken = "send float16, float32, float64, int8, int32, complex64 or complex128"
    with pytest.raises(UnsupportedDType, match=taken) as refused:
        parse(NpyParser, npy_fields(descr=descr, elements=bytes(24)))
    assert len(refused.value.detail) < 300


def test_128_bytes_that_claim_32_gib() -> None:
    """Refused before a sink is opened where the length is known; else the sink, a store, is what refuses it."""
    body = npy_header("float64", (65536, 65536))
    assert len(body) == 128
    collector = Collector()
    with pytest.raises(InvalidMatrix, match="34359738368 bytes of elements, but 0 follow"):
        NpyParser(collector, body_bytes=len(body)).feed(body)
    assert collector.opened == []
    tracemalloc.start()
    try:
        with pytest.raises(InvalidMatrix, match="34359738368 bytes of elements are missing"):
            parse(NpyParser, body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("order", ["C", "F"])
def test_too_few_and_too_many_bytes(order: str) -> None:
    body = saved_npy(np.ones((4, 5), order=order))  # type: ignore[call-overload]
    for cut in range(len(body)):
        with pytest.raises(InvalidMatrix):
            parse(NpyParser, body[:cut])
    with pytest.raises(InvalidMatrix, match="goes on after the last element"):
        parse(NpyParser, body + b"\0")
    with pytest.raises(InvalidMatrix, match="160 bytes of elements, but 161 follow"):
        NpyParser(Collector(), body_bytes=len(body) + 1).feed(body)


def test_python_2_and_other_spellings() -> None:
    """Variants that other programs write and numpy reads: long integers, double quotes, any spacing, any order of
    keys.
    """
    text = "{ \"shape\":(2L,3L),\n'fortran_order' : False ,\"descr\":'|i1'}  \n"
    ((header, sink),) = parse(NpyParser, npy(text, b"abcdef")).opened
    assert header == MatrixHeader("int8", (2, 3))
    assert sink.data == b"abcdef"


def test_row_major_elements_are_not_copied() -> None:
    array = np.arange(12.0).reshape(3, 4)
    seen: list[memoryview] = []

    class Sink:
        def write(self, data: bytes | bytearray | memoryview) -> None:
            seen.append(memoryview(data))

    body = saved_npy(array)
    with NpyParser(lambda header: Sink()) as parser:
        parser.feed(body)
        parser.finish()
    (view,) = seen
    assert view.obj is body


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_no_mutation_raises_anything_but_our_errors(data: st.DataObject) -> None:
    body = bytearray(saved_npy(data.draw(arrays())))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(body), 140)))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.one_of(st.binary(max_size=3), st.sampled_from([b"(", b"9", b"-", b"'", b"{", b"[", b"True", b"\x00"]))
        )
    known = data.draw(st.booleans())
    try:
        ((header, sink),) = parse(
            lambda sink: NpyParser(sink, body_bytes=len(body) if known else None), bytes(body)
        ).opened
    except InvalidRequest:
        return
    assert header.bytes == len(sink.data) <= len(body)
