"""The layout of a matrix on the device: rows are padded so that each begins at an aligned address. At odd row lengths
cuBLAS falls to a fifth of its speed; copying rows to a padded pitch costs nothing extra. Pure arithmetic, without a
device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from jobs.formats.elements import STORAGE_DTYPES
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.model.padding import MAX_PAD, padded_size, pitch_bytes, round_up

LARGEST_PITCH_BYTES = 2**31 - 1  # of a two-dimensional copy
GROUP = 16  # cuBLAS multiplies elements of a byte in groups of so many rows, columns and steps
KEPT = 4096  # layouts, so that equal ones are mostly the same
IN_GROUPS: tuple[DTypeName, ...] = ("int8", "float8_e4m3")


@dataclass(frozen=True, slots=True)
class Piece:
    """`height` rows of `width_bytes`, to be copied between a layout and a matrix as it is stored."""

    device_offset: int
    host_offset: int
    width_bytes: int
    height: int

    @property
    def bytes(self) -> int:
        return self.width_bytes * self.height

    def halves(self, pitch_bytes: int) -> tuple[Piece, Piece]:
        """Cut between two rows, or within the only one. `pitch_bytes`: from one row to the next on the device."""
        if self.height == 1:
            half = self.width_bytes // 2
            first, last = (half, 1), (self.width_bytes - half, 1)
            device, host = half, half
        else:
            half = self.height // 2
            first, last = (self.width_bytes, half), (self.width_bytes, self.height - half)
            device, host = half * pitch_bytes, half * self.width_bytes
        return (
            Piece(self.device_offset, self.host_offset, *first),
            Piece(self.device_offset + device, self.host_offset + host, *last),
        )


@dataclass(frozen=True)
class Layout:
    """A batch of matrices on the device, in elements of `dtype`. What follows from it is worked out once."""

    dtype: DTypeName
    batch: int
    rows: int
    columns: int
    pitch: int  # from one row to the next
    kept_rows: int  # from one matrix to the next, in rows; of a single matrix, what there is room for
    in_groups: bool  # rows and pitch are multiples of GROUP, and what pads them is zero

    @cached_property
    def item(self) -> Layout:
        """Of one matrix of the batch, as it lies there."""
        return replace(self, batch=1)

    @cached_property
    def stride(self) -> int:
        """Elements from one matrix to the next; 0 if one matrix serves the whole batch."""
        return self.pitch * self.kept_rows if self.batch > 1 else 0

    @cached_property
    def itemsize(self) -> int:
        return STORAGE_DTYPES[self.dtype].itemsize

    @cached_property
    def row_bytes(self) -> int:
        return self.columns * self.itemsize

    @cached_property
    def pitch_bytes(self) -> int:
        return self.pitch * self.itemsize

    @cached_property
    def bytes(self) -> int:
        return self.batch * self.kept_rows * self.pitch_bytes

    def padded(self, pad: int) -> tuple[int, int] | None:
        """Rows and columns with zeros up to multiples of `pad`, as `padded_size` has them. None where there is no room
        for them, and for a batch."""
        rows, columns = (padded_size(size, pad, self.itemsize) for size in (self.rows, self.columns))
        return (rows, columns) if self.batch == 1 and rows <= self.kept_rows and columns <= self.pitch else None

    @cached_property
    def cleared(self) -> tuple[int, int]:
        """Rows below each matrix and columns beside it that must be zero, as they may take part in sums."""
        if self.in_groups:
            return self.kept_rows - self.rows, self.pitch - self.columns
        rows, columns = self.padded(MAX_PAD) or (self.rows, self.columns)
        return rows - self.rows, columns - self.columns

    @cached_property
    def _whole(self) -> Piece | None:
        """The whole matrix as one piece; None if one copy cannot take it."""
        if self.pitch == self.columns and (self.kept_rows == self.rows or self.batch == 1):
            return Piece(0, 0, self.batch * self.rows * self.row_bytes, 1)
        if (self.batch == 1 or self.kept_rows == self.rows) and self.pitch_bytes <= LARGEST_PITCH_BYTES:
            return Piece(0, 0, self.row_bytes, self.rows * self.batch)
        return None

    def shrinking_pieces(self, max_bytes: int, last_bytes: int) -> tuple[Piece, ...]:
        """As `pieces`, without empty ones. The last is cut in halves, and its last half again, until it has at most
        `last_bytes`."""
        pieces = [piece for piece in self.pieces(max_bytes) if piece.bytes]
        while pieces and pieces[-1].bytes > last_bytes:
            pieces += pieces.pop().halves(self.pitch_bytes)
        return tuple(pieces)

    def pieces(self, max_bytes: int) -> Iterator[Piece]:
        """The matrix in stored order, in pieces of at most so many bytes."""
        if self._whole is not None and 0 < self._whole.bytes <= max_bytes:
            yield self._whole
            return
        if self.pitch == self.columns and (self.kept_rows == self.rows or self.batch == 1):
            yield from _cut(Piece(0, 0, self.batch * self.rows * self.row_bytes, 1), max_bytes)
            return
        together = self.kept_rows == self.rows  # then a batch is one tall matrix
        rows = self.rows * self.batch if together else self.rows
        height = min(rows, max_bytes // max(1, self.row_bytes)) if self.pitch_bytes <= LARGEST_PITCH_BYTES else 0
        for item in range(1 if together else self.batch):
            first = item * self.kept_rows
            for row in range(0, rows, max(1, height)):
                host = (item * self.rows + row) * self.row_bytes
                count = min(max(1, height), rows - row)
                piece = Piece((first + row) * self.pitch_bytes, host, self.row_bytes, count)
                yield from [piece] if height else _cut(piece, max_bytes)


def _cut(line: Piece, max_bytes: int) -> Iterator[Piece]:
    for start in range(0, line.width_bytes, max_bytes):
        width = min(max_bytes, line.width_bytes - start)
        yield Piece(line.device_offset + start, line.host_offset + start, width, 1)


@lru_cache(maxsize=KEPT)
def layout(dtype: DTypeName, shape: tuple[int, ...], *, in_groups: bool, dense: bool = False) -> Layout:
    """The layout of a stored matrix, (rows, columns) or (batch, rows, columns). `dense`: with the smallest possible
    pitch."""
    batch = shape[0] if len(shape) == 3 else 1
    rows, columns = shape[-2:]
    itemsize = DTYPES[dtype].itemsize
    row_bytes = columns * itemsize
    multiple = GROUP * itemsize if in_groups else itemsize
    pitch = (round_up(max(row_bytes, 1), multiple) if dense else pitch_bytes(row_bytes, multiple)) // itemsize
    kept_rows = round_up(rows, GROUP) if in_groups else rows
    if batch == 1 and not dense and not in_groups:
        kept_rows = padded_size(rows, MAX_PAD, itemsize)
    return Layout(dtype, batch, rows, columns, pitch, kept_rows, in_groups)


def operand_layout(dtype: DTypeName, shape: tuple[int, ...], *, dense: bool = False) -> Layout:
    return layout(dtype, shape, in_groups=dtype in IN_GROUPS, dense=dense)


def product_layout(problem: Problem, *, dense: bool = False) -> Layout:
    shape = (problem.batch, problem.m, problem.n)
    return layout(problem.product_dtype, shape, in_groups=problem.dtype in IN_GROUPS, dense=dense)


def stored_shapes(problem: Problem) -> Iterator[tuple[int, ...]]:
    """The shapes of A and B as stored."""
    a = (problem.k, problem.m) if problem.transpose_a else (problem.m, problem.k)
    b = (problem.n, problem.k) if problem.transpose_b else (problem.k, problem.n)
    yield (problem.batch, *a) if problem.a_batched else a
    items = len(problem.group_sizes) or (problem.batch if problem.b_batched else 0)
    yield (items, *b) if items else b


def in_groups(size: int) -> int:
    """The size that the library multiplies in place of `size` rows, columns or steps, for elements of one byte."""
    return round_up(size, GROUP)
