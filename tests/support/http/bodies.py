"""Bodies for the parsers, and sinks that keep what comes out of them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from jobs.formats.elements import Array
from jobs.formats.parser import MatrixHeader, MatrixParser, OpenSink


class Kept:
    """A sink that keeps all it gets."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.data += data


class Collector:
    """Opens sinks, and remembers them with the header that each was opened for."""

    def __init__(self) -> None:
        self.opened: list[tuple[MatrixHeader, Kept]] = []

    def __call__(self, header: MatrixHeader) -> Kept:
        self.opened.append((header, Kept()))
        return self.opened[-1][1]

    @property
    def by_name(self) -> dict[str, bytes]:
        return {header.name: bytes(sink.data) for header, sink in self.opened}


def parse(make: Callable[[OpenSink], MatrixParser], body: bytes, cuts: Sequence[int] = ()) -> Collector:
    """Feeds `body` in the pieces that `cuts` (offsets) make of it, and ends it."""
    collector = Collector()
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    with make(collector) as parser:
        for start, stop in pairwise(edges):
            parser.feed(body[start:stop])
        parser.finish()
    return collector


def stored(array: Array) -> bytes:
    """An array's elements as a store keeps them: row-major, little-endian."""
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()


def saved_npy(array: Array, version: tuple[int, int] = (1, 0)) -> bytes:
    """The array as numpy itself writes it."""
    body = io.BytesIO()
    np.lib.format.write_array(body, array, version=version)
    return body.getvalue()


def npy(header: str, elements: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    """An .npy body with a header of any text."""
    text = header.encode("utf-8" if version == (3, 0) else "latin-1")
    length = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + length + text + elements


def npy_fields(
    descr: str = "'<f4'", fortran_order: str = "False", shape: str = "(2, 3)", elements: bytes = b""
) -> bytes:
    return npy(f"{{'descr': {descr}, 'fortran_order': {fortran_order}, 'shape': {shape}, }}\n", elements)


def safetensors(header: Any, elements: bytes = b"") -> bytes:
    """A safetensors body with a header of any JSON value, or of any text."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + elements
