"""Matrices as they come in: .npy, safetensors, elements alone, JSON."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import orjson
from safetensors.numpy import save
from starlette.requests import Request

from jobs.formats.bit_floats import held_as_bits, narrow, widen
from jobs.formats.element_order import in_storage_order
from jobs.formats.elements import STORAGE_DTYPES, matrix_bytes
from jobs.formats.npy import NpyParser, npy_header
from jobs.formats.parser import MatrixHeader, MatrixParser, OpenSink
from jobs.formats.safetensors import SafetensorsParser, safetensors_header
from jobs.matrices.interface import MatrixStore
from jobs.matrices.packed import PackedMatrix
from kernels.model.numerics import DTYPE_NAMES, DTYPES, DTypeName
from service.bodies.body import Body
from service.bodies.matrix import JsonMatrixReader, matrix_reader
from service.bodies.nested_lists import to_json
from service.bodies.uploads import Upload, UploadOwner, UploadSet
from service.context import Context
from service.http.negotiation import OCTETS
from tests.fuzz.target import Target, pieces, same_however_cut

MAX_MATRIX_BYTES = 1 << 16
A = np.arange(6, dtype=np.float32).reshape(2, 3)
Header = tuple[DTypeName, tuple[int, ...], bool, bool]
Read = tuple[list[MatrixHeader], list[bytes]]


class Kept:
    """A sink in memory."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.data += data


def uploads() -> UploadSet:
    """For matrices so small that they wait in memory: no store is asked."""
    return UploadSet(cast(MatrixStore, None), lambda: UploadOwner("ada", 60.0), max_bytes=MAX_MATRIX_BYTES)


def elements_of(upload: Upload) -> bytes:
    return bytes(PackedMatrix(upload.pack()).verified())


def _parsed(make: Callable[[OpenSink], MatrixParser], feed: Iterable[bytes]) -> Read:
    sinks: list[Kept] = []

    def open_sink(header: MatrixHeader) -> Kept:
        uploads().open(header)
        sinks.append(Kept())
        return sinks[-1]

    with make(open_sink) as parser:
        for piece in feed:
            parser.feed(piece)
        parser.finish()
        headers = list(parser.headers)
    for header, sink in zip(headers, sinks, strict=True):
        assert len(sink.data) == header.bytes
    return headers, [bytes(sink.data) for sink in sinks]


def _npy(data: bytes) -> None:
    (header,), (elements,) = same_however_cut(lambda feed: _parsed(NpyParser, feed), data)
    if b"L" not in data[: -len(elements) or None]:  # numpy warns of Python 2's numbers, or does not take them
        _as_numpy_reads_it(data, header, elements)
    again = npy_header(header.dtype, header.shape) + elements
    (second,), (repeated,) = _parsed(NpyParser, [again])
    assert (second.dtype, second.shape, repeated) == (header.dtype, header.shape, elements)


def _as_numpy_reads_it(data: bytes, header: MatrixHeader, elements: bytes) -> None:
    file = io.BytesIO(data)
    try:
        theirs = np.lib.format.read_array(file, allow_pickle=False, max_header_size=1 << 17)
    except ValueError:  # Python's grammar does not take spaces at the beginning of a line
        return
    assert theirs.shape == header.shape
    assert np.ascontiguousarray(theirs, theirs.dtype.newbyteorder("<")).tobytes() == elements


def _npy_seeds() -> Iterator[bytes]:
    for array in (A, A.astype(">f8"), np.asfortranarray(A), A.astype(np.int8), np.zeros((2, 0, 3), np.float16)):
        for version in ((1, 0), (2, 0), (3, 0)):
            file = io.BytesIO()
            np.lib.format.write_array(file, array, version)
            yield file.getvalue()
    yield npy_header("int32", (1, 2)) + bytes(8)


def _one_tensor(open_sink: OpenSink) -> MatrixParser:
    return SafetensorsParser(open_sink)


def _operands(open_sink: OpenSink) -> MatrixParser:
    return SafetensorsParser(open_sink, names=("a", "b"), optional=("c",))


def _safetensors(data: bytes) -> None:
    make = _operands if data[:1] == b"o" else _one_tensor
    headers, elements = same_however_cut(lambda feed: _parsed(make, feed), data[1:])
    named = {header.name: (header.dtype, header.shape) for header in headers}
    assert _parsed(make, [safetensors_header(named) + b"".join(elements)]) == (headers, elements)


def _safetensors_seeds() -> Iterator[bytes]:
    for dtype in ("float32", "float16", "int8", "float64", "int32"):
        yield b"1" + save({"x": A.astype(dtype)})
    yield b"o" + save({"a": A, "b": A.T.copy()}, {"options": '{"kernel": "auto"}'})
    yield b"o" + save({"a": A, "b": A, "c": A})
    yield b"1" + safetensors_header({"x": ("bfloat16", (1, 2))}) + bytes(4)
    yield b"1" + safetensors_header({"x": ("float8_e4m3", (2, 2))}) + bytes(4)


def _octets(data: bytes) -> None:
    """A line of element type and shape, as headers and query say them, and the elements."""
    line, _, elements = data.partition(b"\n")
    dtype, _, shape = line.partition(b" ")
    headers = [(b"x-matmul-dtype", dtype), (b"x-matmul-shape", shape)]
    same_however_cut(lambda feed: _read_octets(headers, feed), elements)


def _read_octets(headers: list[tuple[bytes, bytes]], feed: Iterable[bytes]) -> tuple[MatrixHeader, bytes]:
    scope: dict[str, Any] = {"type": "http", "headers": headers, "query_string": b""}
    body = Body({**scope, "headers": [(b"transfer-encoding", b"chunked")]}, _nothing, limit_bytes=1)
    context = cast(Context, SimpleNamespace(staging_dir=None))
    reader = matrix_reader(Request(scope), OCTETS, body, uploads().open, context)
    for piece in feed:
        reader.feed(piece)
    upload = reader.finish()
    data = elements_of(upload)
    assert len(data) == upload.bytes == matrix_bytes(upload.dtype, upload.shape)
    return MatrixHeader(upload.dtype, upload.shape), data


async def _nothing() -> dict[str, Any]:
    return {"type": "http.request"}


def _octets_seeds() -> Iterator[bytes]:
    for dtype in DTYPE_NAMES:
        yield f"{dtype} 2,3\n".encode() + bytes(matrix_bytes(dtype, (2, 3)))
    yield b"int8 1x2x3\n123456"


def _elements(data: bytes) -> None:
    """Any order to the stored one, beside numpy; and types that numpy lacks, there and back."""
    if len(data) < 5:
        return
    dtype: DTypeName = DTYPE_NAMES[data[0] % len(DTYPE_NAMES)]
    shape = tuple(1 + size % 7 for size in data[1 : 3 + data[3] % 2])
    stored, order = STORAGE_DTYPES[dtype], "F" if data[4] & 1 else "C"
    raw = (data[5:] * -(-matrix_bytes(dtype, shape) // max(1, len(data) - 5)))[: matrix_bytes(dtype, shape)]
    raw = raw.ljust(matrix_bytes(dtype, shape), b"\0")
    kept = Kept()
    big_endian = bool(data[4] & 2)
    reordered = in_storage_order(
        kept,
        shape,
        stored.itemsize,
        fortran_order=order == "F",
        big_endian=big_endian,
        staging_dir=None,
        number_bytes=DTYPES[DTYPES[dtype].real].itemsize,
    )
    for piece in pieces(raw):
        reordered.entry.write(piece)
    reordered.finish()
    reordered.close()
    given = np.frombuffer(raw, stored.newbyteorder(">") if big_endian else stored)
    expected = given.reshape(shape, order="F" if order == "F" else "C").astype(stored).tobytes()
    assert bytes(kept.data) == expected
    if held_as_bits(dtype):
        values = np.frombuffer(expected, stored)
        wide = widen(values, dtype)
        assert np.array_equal(widen(narrow(wide, dtype), dtype), wide, equal_nan=True)


def _elements_seeds() -> Iterator[bytes]:
    for dtype in range(len(DTYPE_NAMES)):
        for how in range(4):
            yield bytes((dtype, 2, 3, how & 1, how)) + bytes(range(64))


def _json_matrix(data: bytes) -> None:
    first = _read_json_matrix(data)
    array = np.frombuffer(elements_of(first), STORAGE_DTYPES[first.dtype]).reshape(first.shape)
    text = b'{"dtype":"%s","data":%s}' % (first.dtype.encode(), to_json(array, first.dtype))
    if all(first.shape) and b"random" not in data:
        again = _read_json_matrix(text)
        assert (again.dtype, again.shape, elements_of(again)) == (first.dtype, first.shape, elements_of(first))


def _read_json_matrix(data: bytes) -> Upload:
    reader = JsonMatrixReader(uploads().open)
    reader.feed(data)
    return reader.finish()


def _json_matrix_seeds() -> Iterator[bytes]:
    for dtype in DTYPE_NAMES:
        rows = [[[1, 2], [3, -4]]] if DTYPES[dtype].is_complex else [[1, 2], [3, -4]]
        yield orjson.dumps({"data": rows, "dtype": dtype})
        yield orjson.dumps({"random": {"shape": [2, 3], "dtype": dtype, "seed": 3, "distribution": "integers"}})
    yield b'{"data": [[[1.5, "NaN"]], [["-Infinity", 1e-45]]], "dtype": "float32"}'
    yield b'{"random": {"shape": [2, 3]}, "dtype": "float64"}'


JSON_WORDS = (b'"data"', b'"random"', b'"shape"', b'"dtype"', b'"NaN"', b"NaN", b"1e400", b"[[", b"]]", b"\\ud800")
NPY_WORDS = (b"'descr': ", b"'fortran_order': ", b"'shape': ", b"True", b"'<f4'", b"L,")
TENSOR_WORDS = (b'"dtype"', b'"shape"', b'"data_offsets"', b'"F8_E4M3"', b'"__metadata__"')
TARGETS = (
    Target("npy", _npy, _npy_seeds, NPY_WORDS),
    Target("safetensors", _safetensors, _safetensors_seeds, TENSOR_WORDS),
    Target("octets", _octets, _octets_seeds, (b"18446744073709551616", b"float8_e4m3", b"bfloat16")),
    Target("elements", _elements, _elements_seeds, max_bytes=512),
    Target("json_matrix", _json_matrix, _json_matrix_seeds, JSON_WORDS),
)
