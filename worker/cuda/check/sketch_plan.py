"""Plans the check's sketch on a GPU: its arrays, units of work and parameters. Needs no device.

The arrays and parameters are those of `struct Check` in `worker/cuda/src/sketch.cuh`, in its order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES
from kernels.model.numerics import DTYPES, DTypeName
from worker.cuda.digests.plan import PART_BYTES
from worker.cuda.sources import SKETCH_CHUNK

VECTORS = 8
THREADS, WARPS = 256, 8
RESIDENT_BLOCKS = 2  # of a multiprocessor
ALIGNMENT_BYTES = 16  # of each array
UNIT_BYTES = 1 << 17  # that a unit of `columns` reads at least
MAX_UNITS = 1 << 12  # of a projection; of more rows, units have more
LINES_ALONG, BYTES_ACROSS = 32, 32 * 16  # of a unit of `columns`: stored rows, or bytes of a stored row
PROGRESS_WORDS = 5  # counters, as in `enum Progress`
BLOCK_BYTES, BLOCK_SUMS = 1024, 8  # of the digest: what its sums are of, and words of a sum
PARTS = THREADS // 4  # of a unit that joins blocks
SHORT_SUMS, MAX_DIRECT = 64, 1 << 28  # steps, or multiply-adds, that are done again as fast as a sketch
MAX_DIGESTED_BYTES = 1 << 29  # of a matrix whose blocks' sums are kept: a sixteenth of it


def is_long(elements: int, k: int) -> bool:
    """Whether a sketch of a product costs less than recomputing all of its elements."""
    return k > SHORT_SUMS and elements * k > MAX_DIRECT


@dataclass(frozen=True, slots=True)
class Geometry:
    """A product C (batch, m, n) = A·B. `items_*` is the batch, or 1 where one serves all of it; x are the random
    vectors. Columns of B and C are in groups of `width`."""

    dtype: DTypeName
    transposed: tuple[bool, bool]  # whether A and B are stored transposed
    m: int
    n: int
    k: int
    batch: int
    items_a: int
    items_b: int
    items_x: int
    width: int
    digested: tuple[bool, bool, bool] = (False, False, False)  # which of A, B and C: `can_digest` allows it
    chunk: int = SKETCH_CHUNK
    output: DTypeName | None = None  # C's type, where it may be another than such operands' product has
    sets: int = WARPS  # of rows, of a unit at least: a warp takes one at a time

    @property
    def groups(self) -> int:
        return max(1, -(-self.n // self.width))

    @property
    def is_integer(self) -> bool:
        return DTYPES[self.dtype].is_integer

    @property
    def itemsize(self) -> int:
        """Bytes of an element of A or B."""
        return STORAGE_DTYPES[self.dtype].itemsize

    @property
    def product_itemsize(self) -> int:
        return STORAGE_DTYPES[self.output or DTYPES[self.dtype].product].itemsize


def can_digest(g: Geometry) -> tuple[bool, bool, bool]:
    """Which of A, B and C, where their rows begin at multiples of 16 bytes, can be digested as they are projected."""
    return (
        not g.transposed[0] and _in_blocks(g, g.items_a * g.m, g.k, g.k, g.itemsize),
        not g.transposed[1] and _in_blocks(g, g.items_b * g.k, g.n, g.width, g.itemsize),
        _in_blocks(g, g.batch * g.m, g.n, g.width, g.product_itemsize),
    )


def _in_blocks(g: Geometry, rows: int, columns: int, width: int, itemsize: int) -> bool:
    """Whether each chunk of a row has whole blocks."""
    chunk, row_bytes = g.chunk * itemsize, columns * itemsize
    begins = width * itemsize if columns > width else 0
    return (chunk | row_bytes | begins) % BLOCK_BYTES == 0 and rows * row_bytes <= MAX_DIGESTED_BYTES


class Field(NamedTuple):
    """One array."""

    name: str
    dtype: type[np.generic]
    shape: tuple[int, ...]
    zeroed: bool
    is_result: bool


class ArrayView(NamedTuple):
    """Where an array lies in the results."""

    name: str
    dtype: type[np.generic]
    size: int  # elements
    begin: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SketchPlan:
    """`offsets` are those of the fields in one allocation; what must be zero comes first, results are contiguous."""

    fields: tuple[Field, ...]
    offsets: tuple[int, ...]
    bytes: int
    zeroed_bytes: int
    results: tuple[int, int]  # where they begin and end
    views: tuple[ArrayView, ...]
    units: int  # of work
    parts: tuple[int, int, int]  # of A, B and C, as digested
    numbers: tuple[int, ...]  # parameters from `items_a` to `blocks_c`
    items_x: int  # of random vectors
    grouped: tuple[int, int]  # columns of a group, and groups

    def offset(self, name: str) -> int:
        """Of one array."""
        return self.offsets[[field.name for field in self.fields].index(name)]


@lru_cache(maxsize=256)
def plan(geometry: Geometry) -> SketchPlan:
    """For a product with elements, that is m, n and k above 0."""
    g, (transposed_a, transposed_b) = geometry, geometry.transposed
    columns, rows = _lines(geometry, of_a=False), _lines(geometry, of_a=True)
    b = _projection(g, g.k, g.width, g.items_x, g.itemsize, transposed_b)
    a = _projection(g, g.m, g.k, g.batch, g.itemsize, transposed_a)
    c = _projection(g, g.m, g.width, g.batch, g.product_itemsize, transposed=False)
    sizes = (g.items_a * g.m * g.k, g.items_b * g.k * g.n)
    stored = (*(size * g.itemsize for size in sizes), g.batch * g.m * g.n * g.product_itemsize)
    digested = [size * asked for size, asked in zip(stored, g.digested, strict=True)]
    blocks = [size // BLOCK_BYTES for size in digested]
    parts = [max(1, size // PART_BYTES) if size else 0 for size in digested]
    fields = _fields(g, columns.strips, blocks, parts)
    offsets, end, zeroed = [], 0, 0
    for field in fields:
        offsets.append(end)
        end += _up(prod(field.shape) * np.dtype(field.dtype).itemsize, ALIGNMENT_BYTES)
        zeroed = end if field.zeroed else zeroed
    results = [index for index, field in enumerate(fields) if field.is_result]
    ends = offsets[results[0]], offsets[results[-1] + 1]
    views = tuple(
        ArrayView(field.name, field.dtype, prod(field.shape), offset - ends[0], field.shape)
        for field, offset in zip(fields, offsets, strict=True)
        if field.is_result
    )
    units = (
        rows.strips * rows.ranges * g.items_a if g.dtype == "float64" else 0,
        columns.strips * columns.ranges * g.items_b,
        b.chunks * b.ranges * g.items_x,
        c.chunks * c.ranges * g.batch,
        a.chunks * a.ranges * g.batch,
        -(-parts[1] // PARTS),
        -(-parts[2] // PARTS),
        -(-g.batch * g.m * g.groups // THREADS),
        -(-parts[0] // PARTS),
    )
    numbers: tuple[int, ...] = (
        *(g.items_a, g.items_b, g.items_x, g.batch),
        g.width,
        g.groups,
        columns.strips,
        columns.each,
        rows.each,
    )
    numbers += (b.each, a.each, c.each, *units, *blocks)
    of, x = (parts[0], parts[1], parts[2]), g.items_x
    return SketchPlan(fields, tuple(offsets), end, zeroed, ends, views, sum(units), of, numbers, x, (g.width, g.groups))


def _fields(g: Geometry, strips: int, blocks: list[int], parts: list[int]) -> tuple[Field, ...]:
    word: type[np.generic] = np.uint64 if g.is_integer else np.float64
    peak: type[np.generic] = np.uint64 if g.dtype == "float64" else np.float64
    floats, doubles = int(not g.is_integer), int(g.dtype == "float64")  # 0: such an array has no elements
    in_groups = (g.batch * floats, g.m, g.groups)
    return (
        Field("progress", np.uint64, (PROGRESS_WORDS,), True, False),
        Field("strips_done", np.uint32, (g.items_b, strips), True, False),
        Field("strips_ready", np.uint32, (g.items_b, strips), True, False),
        Field("peaks", peak, (g.items_b * floats, g.n), True, False),
        Field("y", word, (g.items_x, g.k, g.groups, VECTORS), True, False),
        Field("z", np.float64, (g.items_x * floats, g.k, g.groups), True, False),
        Field("p", word, (g.batch, g.m, g.groups, VECTORS), True, False),
        Field("s", word, (g.batch, g.m, g.groups, VECTORS), True, False),
        Field("odd_rows", np.uint8, (g.batch * floats, g.m), True, False),
        Field("q", np.float64, in_groups, True, True),
        Field("r", np.float64, in_groups, True, True),
        Field("unit", np.float64, (g.items_x * floats, g.groups), True, True),
        Field("row_peaks", peak, (g.items_a * doubles, g.m), True, True),
        Field("bad_rows", np.uint8, (g.batch, g.m), True, True),
        Field("bad_columns", np.uint8, (g.items_b * floats, g.n), True, True),
        Field("odd_columns", np.uint8, (g.batch * floats, g.n), True, True),
        Field("worst", np.uint64, (1,), True, True),
        Field("difference", np.float64, in_groups, False, True),
        Field("x", word, (g.items_x, g.n, VECTORS), False, False),
        Field("w", np.float64, (g.items_x * floats, g.n), False, False),
        Field("exponents", np.int64, (g.items_b * doubles, g.n), False, False),
        *(
            Field(f"sums_{name}", np.uint64, (count, BLOCK_SUMS), False, False)
            for name, count in zip("abc", blocks, strict=True)
        ),
        *(Field(f"parts_{name}", np.uint64, (count,), False, False) for name, count in zip("abc", parts, strict=True)),
    )


class _Lines(NamedTuple):
    """How `columns` or `rows` cuts lines into strips, and each line into ranges of `each` elements."""

    strips: int
    ranges: int
    each: int


def _lines(g: Geometry, *, of_a: bool) -> _Lines:
    """Lines are columns of B or rows of A. Of integers' columns the vectors are drawn only, a column by a thread."""
    if g.is_integer:
        return _Lines(-(-g.n // THREADS), 1, g.k)
    in_rows = not g.transposed[0] if of_a else g.transposed[1]
    lines, items = (g.m, g.items_a) if of_a else (g.n, g.items_b)
    strips = -(-lines // (LINES_ALONG if in_rows else BYTES_ACROSS // g.itemsize))
    each = UNIT_BYTES // (LINES_ALONG * g.itemsize if in_rows else BYTES_ACROSS)
    each *= _times(strips * items * -(-g.k // each))
    return _Lines(strips, -(-g.k // each), each)


class _Projection(NamedTuple):
    """How a projection is cut: chunks of columns, of all groups, and ranges of `each` sets of rows."""

    chunks: int
    ranges: int
    each: int


def _projection(g: Geometry, rows: int, width: int, items: int, itemsize: int, transposed: bool) -> _Projection:
    chunks = g.groups * -(-width // g.chunk)
    sets = -(-rows // (8 * min(4, 16 // itemsize) if transposed else 16))
    each = g.sets * _times(chunks * items * -(-sets // g.sets))
    return _Projection(chunks, -(-sets // each), each)


def _times(units: int) -> int:
    """The number of units to merge into one, so that there are not too many."""
    return max(1, units // MAX_UNITS)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
