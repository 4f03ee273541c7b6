"""The safetensors parser against the library's own files, and against files that lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.errors import InvalidMatrix, InvalidRequest, UnsupportedDType
from jobs.formats.elements import STORAGE_DTYPES, Array, matrix_bytes
from jobs.formats.parser import MatrixHeader
from jobs.formats.safetensors import MAX_HEADER_BYTES, SafetensorsParser, safetensors_header
from kernels.model.numerics import DTYPE_NAMES, DTypeName
from tests.support.http.bodies import Collector, parse
from tests.support.http.bodies import safetensors as body_of

NUMPY_DTYPES: tuple[DTypeName, ...] = ("float16", "float32", "float64", "int8", "int32", "complex64")
SHAPES = st.lists(st.integers(0, 5), min_size=2, max_size=3).map(tuple)
NAMED = tuple(name for name in DTYPE_NAMES if name != "complex128")  # that the format has a name for
CUTS = st.lists(st.integers(0, 2**16), max_size=12)
OPERANDS = ("a", "b")


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    shape = draw(SHAPES)
    dtype = STORAGE_DTYPES[draw(st.sampled_from(NUMPY_DTYPES))]
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype).reshape(shape)


def tensor(begin: int, end: int, shape: tuple[int, ...] = (1, 2), dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@settings(deadline=None)
@given(arrays(), arrays(), st.one_of(st.none(), st.dictionaries(st.text(), st.text(), max_size=3)), CUTS)
def test_what_the_library_writes_is_read_in_any_pieces(
    a: Array, b: Array, metadata: dict[str, str] | None, cuts: list[int]
) -> None:
    body = safetensors.numpy.save({"b": b, "a": a}, metadata)
    parser = SafetensorsParser(Collector(), names=OPERANDS, body_bytes=len(body))
    parser.feed(body)
    parser.finish()
    assert parser.metadata == (metadata or {})
    found = parse(lambda sink: SafetensorsParser(sink, names=OPERANDS, body_bytes=len(body)), body, cuts)
    assert found.by_name == {"a": a.tobytes(), "b": b.tobytes()}
    assert {header.name: header.shape for header, _ in found.opened} == {"a": a.shape, "b": b.shape}


@given(st.sampled_from(NAMED), SHAPES, st.sampled_from(NAMED), SHAPES)
def test_the_library_reads_what_is_written(
    dtype: DTypeName, shape: tuple[int, ...], other_dtype: DTypeName, other_shape: tuple[int, ...]
) -> None:
    header = safetensors_header({"c": (dtype, shape), "d": (other_dtype, other_shape)})
    assert len(header) % 8 == 0
    c, d = b"\x01" * matrix_bytes(dtype, shape), b"\x02" * matrix_bytes(other_dtype, other_shape)
    read = dict(safetensors.deserialize(header + c + d))  # type: ignore[no-untyped-call]
    assert (read["c"]["shape"], bytes(read["c"]["data"])) == (list(shape), c)
    assert (read["d"]["shape"], bytes(read["d"]["data"])) == (list(other_shape), d)
    ours = parse(lambda sink: SafetensorsParser(sink, names=("c", "d")), header + c + d)
    assert ours.by_name == {"c": c, "d": d}


def test_every_element_type_by_name() -> None:
    for code, dtype in zip(("F16", "BF16", "F32", "F64", "I8", "I32", "F8_E4M3", "C64"), NAMED, strict=True):
        size = matrix_bytes(dtype, (1, 2))
        ((header, _),) = parse(SafetensorsParser, body_of({"x": tensor(0, size, dtype=code)}, bytes(size))).opened
        assert header == MatrixHeader(dtype, (1, 2), "x")


def test_what_the_format_has_no_name_for_is_refused() -> None:
    with pytest.raises(UnsupportedDType, match="safetensors has no complex128; ask for application/x-npy"):
        safetensors_header({"c": ("complex128", (2, 3))})
    with pytest.raises(UnsupportedDType, match="dtype 'C128' is not taken here"):
        parse(SafetensorsParser, body_of({"x": tensor(0, 32, dtype="C128")}, bytes(32)))


HOSTILE = {
    "empty": b"",
    "half a length": b"\x08\x00\x00",
    "a length past the end": b"\xff\x00\x00\x00\x00\x00\x00\x00{}",
    "a length of 2^64 - 1": b"\xff" * 8 + b"{}",
    "a length just too long": (MAX_HEADER_BYTES + 1).to_bytes(8, "little"),
    "no JSON": body_of("{'a': 1}"),
    "not UTF-8": (2).to_bytes(8, "little") + b"\xff\xfe",
    "a list": body_of([1, 2]),
    "deep": body_of("[" * 500_000),
    "deep in a tensor": body_of('{"a": ' + '{"a": ' * 50_000),
    "a number of 100,000 digits": body_of('{"a": ' + "9" * 100_000 + "}"),
    "no tensor": body_of({}),
    "one of two": body_of({"a": tensor(0, 8)}, bytes(8)),
    "three": body_of({"a": tensor(0, 8), "b": tensor(8, 16), "c": tensor(16, 24)}, bytes(24)),
    "others": body_of({"x": tensor(0, 8), "y": tensor(8, 16)}, bytes(16)),
    "a twice": body_of('{"a": 1, "a": 2, "b": 3}'),
    "a key of a tensor twice": body_of('{"a": {"dtype": "F32", "dtype": "F32"}, "b": 3}'),
    "a tensor that is text": body_of({"a": "F32", "b": tensor(0, 8)}, bytes(8)),
    "a key too many": body_of({"a": tensor(0, 8) | {"x": 1}, "b": tensor(8, 16)}, bytes(16)),
    "metadata that is text": body_of({"__metadata__": "x", "a": tensor(0, 8), "b": tensor(8, 16)}, bytes(16)),
    "metadata that holds a number": body_of({"__metadata__": {"x": 1}, "a": tensor(0, 8), "b": tensor(8, 16)}),
    "metadata with half a character": body_of('{"__metadata__": {"x": "\\ud800"}}'),
    "overlap": body_of({"a": tensor(0, 8), "b": tensor(4, 12)}, bytes(12)),
    "the same bytes": body_of({"a": tensor(0, 8), "b": tensor(0, 8)}, bytes(8)),
    "a gap": body_of({"a": tensor(0, 8), "b": tensor(12, 20)}, bytes(20)),
    "a gap before the first": body_of({"a": tensor(4, 12), "b": tensor(12, 20)}, bytes(20)),
    "backwards": body_of({"a": tensor(8, 0), "b": tensor(8, 16)}, bytes(16)),
    "negative offsets": body_of({"a": tensor(-8, 0), "b": tensor(0, 8)}, bytes(16)),
    "offsets that are not the shape's": body_of({"a": tensor(0, 8), "b": tensor(8, 20)}, bytes(20)),
    "offsets past 2^64": body_of({"a": tensor(0, 8), "b": tensor(2**64, 2**64 + 8)}, bytes(16)),
    "offsets that are not whole": body_of({"a": tensor(0, 8), "b": tensor(8, 16) | {"data_offsets": [8.0, 16]}}),
    "NaN for an offset": body_of('{"a": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, NaN]}, "b": 1}'),
    "three offsets": body_of({"a": tensor(0, 8), "b": tensor(8, 16) | {"data_offsets": [8, 16, 24]}}),
    "bool in a shape": body_of({"a": tensor(0, 8, (True, 2)), "b": tensor(8, 16)}, bytes(16)),
    "text in a shape": body_of({"a": tensor(0, 8) | {"shape": ["1", 2]}, "b": tensor(8, 16)}, bytes(16)),
    "a negative size": body_of({"a": tensor(0, 8, (-1, -2)), "b": tensor(8, 16)}, bytes(16)),
    "one axis": body_of({"a": tensor(0, 8, (2,)), "b": tensor(8, 16)}, bytes(16)),
    "four axes": body_of({"a": tensor(0, 8, (1, 1, 1, 2)), "b": tensor(8, 16)}, bytes(16)),
    "100,000 axes": body_of({"a": tensor(0, 8, (1,) * 100_000), "b": tensor(8, 16)}, bytes(16)),
    "immense": body_of({"a": tensor(0, 2**64, (2**31, 2**31)), "b": tensor(2**64, 2**64 + 8)}, bytes(16)),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_header_that_lies_opens_nothing(body: bytes) -> None:
    collector = Collector()
    with pytest.raises(InvalidMatrix), SafetensorsParser(collector, names=OPERANDS) as parser:
        parser.feed(body)
        parser.finish()
    assert collector.opened == []


@pytest.mark.parametrize("dtype", ["U8", "I16", "I64", "BOOL", "F8_E5M2", "C128", "f32", "", 7, None, ["F32"]])
def test_other_element_types_are_refused_with_those_taken(dtype: Any) -> None:
    with pytest.raises(UnsupportedDType, match="send F16, BF16, F32, F64, I8, I32, F8_E4M3"):
        parse(SafetensorsParser, body_of({"x": tensor(0, 8) | {"dtype": dtype}}, bytes(8)))


def test_sizes_are_held_against_the_body_before_a_sink_is_opened() -> None:
    header = {"a": tensor(0, 2**35, (2**17, 2**16)), "b": tensor(2**35, 2**35 + 8)}
    body = body_of(header, bytes(16))
    collector = Collector()
    with pytest.raises(InvalidMatrix, match="34359738376 bytes of elements, but 16 follow"):
        SafetensorsParser(collector, names=OPERANDS, body_bytes=len(body)).feed(body)
    assert collector.opened == []


def test_too_few_and_too_many_bytes() -> None:
    body = body_of({"a": tensor(0, 8), "b": tensor(8, 16)}, bytes(range(16)))
    for cut in range(len(body)):
        with pytest.raises(InvalidMatrix):
            parse(lambda sink: SafetensorsParser(sink, names=OPERANDS), body[:cut])
    with pytest.raises(InvalidMatrix, match="goes on after the last element"):
        parse(lambda sink: SafetensorsParser(sink, names=OPERANDS), body + b"\0")


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_no_mutation_raises_anything_but_our_errors(data: st.DataObject) -> None:
    body = bytearray(safetensors.numpy.save({"a": data.draw(arrays()), "b": data.draw(arrays())}))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(body), 160)))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.one_of(st.binary(max_size=3), st.sampled_from([b"{", b"[", b'"', b"-", b"9", b"1e9", b"null", b","]))
        )
    try:
        found = parse(lambda sink: SafetensorsParser(sink, names=OPERANDS), bytes(body))
    except InvalidRequest:
        return
    assert sum(header.bytes for header, _ in found.opened) <= len(body)
