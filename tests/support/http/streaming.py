"""Streams a made-up .npy body into a store, and prints by how much this process grew at its largest, in MiB.

python -m tests.support.http.streaming REDIS_URL PREFIX DIRECTORY ORDER ROWS COLUMNS
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil

from jobs.formats.npy import NpyParser, npy_header
from jobs.formats.parser import MatrixHeader
from jobs.matrices.interface import MatrixWriter
from tests.support.stores import StoreBench, fresh_name, make_bench

PIECE_BYTES = 1 << 20
CYCLE = 4099  # elements after which the contents repeat: prime, so that rows and columns differ


class Scale:
    """Weighs the process at each piece that comes out of the parser."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._begin = self._process.memory_info().rss
        self.growth_bytes = 0

    def weigh(self) -> None:
        self.growth_bytes = max(self.growth_bytes, self._process.memory_info().rss - self._begin)


class WeighedSink:
    def __init__(self, writer: MatrixWriter, scale: Scale) -> None:
        self.writer = writer
        self._scale = scale

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writer.write(data)
        self._scale.weigh()


def pieces(total_bytes: int) -> Iterator[bytes]:
    """float32 elements: 0, 1, … CYCLE - 1, and again."""
    cycle = np.tile(np.arange(CYCLE, dtype="<f4"), PIECE_BYTES // 4 // CYCLE + 2)
    for start, stop in pairwise([*range(0, total_bytes, PIECE_BYTES), total_bytes]):
        first = start // 4 % CYCLE
        yield cycle[first : first + (stop - start) // 4].tobytes()


def stream(bench: StoreBench, order: str, shape: tuple[int, int]) -> int:
    """Returns the growth in bytes. Raises AssertionError if another matrix arrived than was sent."""
    header = npy_header("float32", shape)
    if order == "F":
        header = header.replace(b"'fortran_order': False,", b"'fortran_order': True, ")
    total_bytes = shape[0] * shape[1] * 4
    next(pieces(total_bytes))
    scale = Scale()
    sinks: list[WeighedSink] = []

    def open_sink(header: MatrixHeader) -> WeighedSink:
        name = fresh_name()
        writer = bench.store.create(header.dtype, header.shape, owner="ada", ttl_s=60, name=name)
        sinks.append(WeighedSink(writer, scale))
        return sinks[0]

    with NpyParser(open_sink, staging_dir=bench.settings.store_dir) as parser:
        parser.feed(header)
        for piece in pieces(total_bytes):
            parser.feed(piece)
            scale.weigh()
        parser.finish()
        info = sinks[0].writer.commit()
    scale.weigh()
    check(bench, info.id, order, shape)
    bench.store.delete(info.id, owner="ada")
    return scale.growth_bytes


def check(bench: StoreBench, matrix_id: str, order: str, shape: tuple[int, int]) -> None:
    rows, columns = shape
    with bench.store.open(matrix_id, "float32", shape) as stored:
        stored.verify()
        for row in (0, 1, rows // 2, rows - 1):
            column = np.arange(columns, dtype=np.int64)
            place = row * columns + column if order == "C" else row + column * rows
            np.testing.assert_array_equal(stored.elements[row], (place % CYCLE).astype(np.float32))


if __name__ == "__main__":
    url, prefix, directory, order, rows, columns = sys.argv[1:]
    bench = make_bench("file", url, prefix, Path(directory))
    print(stream(bench, order, (int(rows), int(columns))) / 2**20)
