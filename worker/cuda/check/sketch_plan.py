"""What the check's sketch on a GPU takes: its arrays, its launches and its parameters. Needs no device.

The arrays and parameters are those of `struct Check` in `worker/cuda/src/sketch.cuh`, in its order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES
from kernels.model.arrange import MAX_GRID_Z
from kernels.model.numerics import DTYPES, DTypeName
from worker.cuda.sources import SKETCH_CHUNK

VECTORS = 8
THREADS, WARPS = 256, 8
ALIGNMENT_BYTES = 16  # of each array
BLOCKS_PER_MULTIPROCESSOR = 4  # wanted of a launch
LINES_ALONG, BYTES_ACROSS = 32, 32 * 16  # of a block of `columns`: stored rows, or bytes of a stored row


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
    multiprocessors: int
    common: bool = False  # columns of B are scaled alike
    chunk: int = SKETCH_CHUNK

    @property
    def groups(self) -> int:
        return max(1, -(-self.n // self.width))

    @property
    def is_integer(self) -> bool:
        return DTYPES[self.dtype].is_integer


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


class SketchStep(NamedTuple):
    """One launch: the kernel's function and its grid along x and z."""

    function: str
    blocks: int
    items: int


@dataclass(frozen=True, slots=True)
class SketchPlan:
    """`offsets` are those of the fields in one allocation; what must be zero comes first, results are contiguous."""

    fields: tuple[Field, ...]
    offsets: tuple[int, ...]
    bytes: int
    zeroed_bytes: int
    results: tuple[int, int]  # where they begin and end
    views: tuple[ArrayView, ...]
    steps: tuple[SketchStep, ...]
    numbers: tuple[int, ...]  # parameters from `items_a` to `counters_c`


@lru_cache(maxsize=256)
def plan(geometry: Geometry) -> SketchPlan:
    """For a product with elements, that is m, n and k above 0."""
    columns, rows = _lines(geometry, of_a=False), _lines(geometry, of_a=True)
    stored = (STORAGE_DTYPES[geometry.dtype].itemsize, STORAGE_DTYPES[DTYPES[geometry.dtype].product].itemsize)
    g, (transposed_a, transposed_b) = geometry, geometry.transposed
    b = _projection(g, g.k, g.width, g.items_x, stored[0], transposed_b)
    a = _projection(g, g.m, g.k, g.batch, stored[0], transposed_a)
    c = _projection(g, g.m, g.width, g.batch, stored[1], transposed=False)
    counters_of_columns = g.items_b * columns.strips
    fields = _fields(g, counters_of_columns + g.batch * c.ranges)
    offsets, end, zeroed = [], 0, 0
    for field in fields:
        offsets.append(end)
        end += _up(prod(field.shape) * np.dtype(field.dtype).itemsize, ALIGNMENT_BYTES)
        zeroed = end if field.zeroed else zeroed
    results = [index for index, field in enumerate(fields) if field.is_result]
    of_rows = [SketchStep("rows", rows.strips * rows.ranges, g.items_a)] if g.dtype == "float64" else []
    of_columns = SketchStep("columns", columns.strips * columns.ranges, g.items_b)
    steps = (
        *of_rows,
        SketchStep("draw", -(-g.items_x * g.n // THREADS), 1) if g.is_integer else of_columns,
        SketchStep("project_b", b.chunks * b.ranges, g.items_x),
        SketchStep("project_a", a.chunks * a.ranges, g.batch),
        SketchStep("project_c", c.chunks * c.ranges, g.batch),
    )
    items = (g.items_a, g.items_b, g.items_x, g.batch)
    shares = (columns.each, rows.each, b.each, a.each, c.each)
    ends = offsets[results[0]], offsets[results[-1] + 1]
    limited = tuple(step._replace(items=min(step.items, MAX_GRID_Z)) for step in steps)
    views = tuple(
        ArrayView(field.name, field.dtype, prod(field.shape), offset - ends[0], field.shape)
        for field, offset in zip(fields, offsets, strict=True)
        if field.is_result
    )
    numbers = (*items, g.width, g.groups, *shares, counters_of_columns)
    return SketchPlan(fields, tuple(offsets), end, zeroed, ends, views, limited, numbers)


def _fields(g: Geometry, counters: int) -> tuple[Field, ...]:
    word: type[np.generic] = np.uint64 if g.is_integer else np.float64
    peak: type[np.generic] = np.uint64 if g.dtype == "float64" else np.float64
    floats, doubles = int(not g.is_integer), int(g.dtype == "float64")  # 0: such an array has no elements
    in_groups = (g.batch * floats, g.m, g.groups)
    return (
        Field("peaks", peak, (g.items_b * floats, g.n), True, False),
        Field("counters", np.uint32, (counters,), True, False),
        Field("y", word, (g.items_x, g.k, g.groups, VECTORS), True, False),
        Field("z", np.float64, (g.items_x * floats, g.k, g.groups), True, False),
        Field("p", word, (g.batch, g.m, g.groups, VECTORS), True, False),
        Field("s", word, (g.batch, g.m, g.groups, VECTORS), True, False),
        Field("q", np.float64, in_groups, True, True),
        Field("r", np.float64, in_groups, True, True),
        Field("unit", np.float64, (g.items_x * floats, g.groups), True, True),
        Field("row_peaks", peak, (g.items_a * doubles, g.m), True, True),
        Field("bad_rows", np.uint8, (g.batch, g.m), True, True),
        Field("bad_columns", np.uint8, (g.items_b * floats, g.n), True, True),
        Field("odd_columns", np.uint8, (g.batch * floats, g.n), True, True),
        Field("difference", np.float64, in_groups, False, True),
        Field("x", word, (g.items_x, g.n, VECTORS), False, False),
        Field("w", np.float64, (g.items_x * floats, g.n), False, False),
        Field("exponents", np.int64, (g.items_b * doubles, g.n), False, False),
    )


class _Lines(NamedTuple):
    """How `columns` or `rows` cuts lines into strips, and each line into ranges of `each` elements."""

    strips: int
    ranges: int
    each: int


def _lines(g: Geometry, *, of_a: bool) -> _Lines:
    """Lines are columns of B or rows of A."""
    itemsize = STORAGE_DTYPES[g.dtype].itemsize
    in_rows = not g.transposed[0] if of_a else g.transposed[1]
    lines, items = (g.m, g.items_a) if of_a else (g.n, g.items_b)
    strips = -(-lines // (LINES_ALONG if in_rows else BYTES_ACROSS // itemsize))
    step = BYTES_ACROSS // itemsize if in_rows else 4 * WARPS
    each = _up(-(-g.k // _ranges(g, strips * items)), step)
    return _Lines(strips, -(-g.k // each), each)


class _Projection(NamedTuple):
    """How a projection is cut: chunks of columns, of all groups, and ranges of `each` sets of rows."""

    chunks: int
    ranges: int
    each: int


def _projection(g: Geometry, rows: int, width: int, items: int, itemsize: int, transposed: bool) -> _Projection:
    """A block's warps have a set of rows each at a time."""
    chunks = g.groups * -(-width // g.chunk)
    sets = -(-rows // (8 * min(4, 16 // itemsize) if transposed else 16))
    each = _up(-(-sets // _ranges(g, chunks * items)), WARPS)
    return _Projection(chunks, -(-sets // each), each)


def _ranges(g: Geometry, blocks: int) -> int:
    """Into how many parts to cut what so many blocks do, to keep the device busy."""
    return max(1, -(-BLOCKS_PER_MULTIPROCESSOR * g.multiprocessors // blocks))


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
