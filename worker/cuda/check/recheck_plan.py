"""Plans how rows or columns of a product are computed again on a GPU: the lines of each block, and the kernel's
parameters. Needs no device.

Parameters are those of `struct Recheck` in `worker/cuda/src/recheck.cuh`, in its order.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, log2
from typing import NamedTuple

import numpy as np

from jobs.formats.elements import Array
from kernels.model.accuracy import DRIFT_FACTOR
from worker.check.block import NEAR
from worker.check.rounding import Rounding

LISTED, CROSSED, DEPTH, THREADS = 32, 64, 16, 256  # of a block, as in recheck.cu
CAPACITY = 256  # elements that a launch can leave to the host
OPEN_WORDS = 4  # of each: item, listed line, crossed line, ratio
RESULT_WORDS = 2 + CAPACITY * OPEN_WORDS  # the largest ratio, how many are left, and those
MAX_TERMS = 1 << 36  # of a launch: some 30 ms of an H100's time, half a second of a device with little float64
MAX_BLOCKS = (1 << 31) - 1
NO_NORM = 0.0


class Operand(NamedTuple):
    """How one lies: whether the terms of a line, a row of A or a column of B, are neighbours in memory; and elements
    from one stored row to the next, and from one item to the next."""

    along: bool
    pitch: int
    stride: int


class Element(NamedTuple):
    """Where an element of C or of what is added lies: elements from one row to the next, and so on."""

    row_step: int
    column_step: int
    stride: int


class Epilogue(NamedTuple):
    """What is added to alpha·A·B, where there is something."""

    alpha: float
    beta: float
    addend: Element | None
    bias: Element | None


class RecheckGeometry(NamedTuple):
    """How everything lies that is read: A and B, C, and what is added."""

    operands: tuple[Operand, Operand]
    c: Element
    epilogue: Epilogue | None = None


class Lines(NamedTuple):
    """The lines of one launch, int64, and the tiles that they come in: (tiles, 4) of item, first place in `lines`, how
    many, and the bits of the item's norm."""

    lines: Array
    tiles: Array


def can_recheck(rounding: Rounding) -> bool:
    """Whether the kernel adds up as the class does: sums begin anew at a chunk of terms, if at all."""
    return not rounding.normwise and (rounding.depth >= rounding.k or rounding.depth % DEPTH == 0)


def launches(mask: Array, crossed: int, k: int) -> Iterator[Lines]:
    """The lines of a mask (batch, lines), in launches of at most MAX_TERMS terms, but of a tile at least. Each line
    crosses so many."""
    counts = mask.sum(axis=1)
    lines = np.nonzero(mask)[1].astype(np.int64)
    each = -(-counts // LISTED)  # tiles of an item
    item = np.repeat(np.arange(len(mask)), each)
    within = LISTED * (np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each))
    first = (np.cumsum(counts) - counts)[item] + within
    tiles = np.stack([item, first, np.minimum(LISTED, counts[item] - within)], axis=1).astype(np.int64)
    step = max(1, min(MAX_TERMS // max(1, LISTED * crossed * k), MAX_BLOCKS // -(-crossed // CROSSED)))
    norms = np.full((step, 1), NO_NORM).view(np.int64)
    for start in range(0, len(tiles), step):
        part = tiles[start : start + step]
        begin, end = part[0, 1], part[-1, 1] + part[-1, 2]
        own = np.concatenate([part - [0, begin, 0], norms[: len(part)]], axis=1)
        yield Lines(lines[begin:end], np.ascontiguousarray(own))


def block_count(lines: Lines, crossed: int) -> int:
    return len(lines.tiles) * -(-crossed // CROSSED)


def numbers(rounding: Rounding, geometry: RecheckGeometry, crossed: int, *, of_columns: bool, decides: bool) -> Array:
    """The parameters after the addresses, uint64. Lines are rows of C or columns. Without `decides`, whatever is not
    near its sum by far is left to the host."""
    operands, c, epilogue = geometry
    listed, crossing = operands[::-1] if of_columns else operands
    none = Element(0, 0, 0)
    addend, bias = (epilogue.addend, epilogue.bias) if epilogue is not None else (None, None)
    integers = [
        *(CAPACITY, crossed, rounding.k, max(rounding.depth, 1), *listed, *crossing),
        *_steps(c, of_columns=of_columns),
        *(addend is not None, *_steps(addend or none, of_columns=of_columns)),
        *(bias is not None, *_steps(bias or none, of_columns=of_columns)[:2]),
        *(epilogue is not None, decides, *_lowered(rounding)),
    ]
    floats = [*rounding.element_factors, rounding.output, rounding.epilogue * (1.0 + rounding.output)]
    floats += [DRIFT_FACTOR * rounding.accumulate, rounding.operand_floor, _rounds_to_infinity(rounding)]
    floats += [1.0 if decides and not rounding.is_float64 else NEAR]
    floats += [rounding.largest_output * (1.0 + rounding.output / 2), rounding.largest_sum]
    floats += [1.0, 0.0] if epilogue is None else [epilogue.alpha, epilogue.beta]
    return np.concatenate([np.array(integers, np.int64).view(np.uint64), np.array(floats).view(np.uint64)])


def _steps(at: Element, *, of_columns: bool) -> tuple[int, int, int]:
    """From a listed line to the next, from one that these cross to the next, from an item to the next."""
    if of_columns:
        return at.column_step, at.row_step, at.stride
    return at.row_step, at.column_step, at.stride


def _lowered(rounding: Rounding) -> tuple[int, int]:
    """The significant bits of rounded operands, and the exponent below which they are multiples of a smallest number,
    as `worker.check.rounding.as_significant` has them; zeros where they enter as they are."""
    if not rounding.operand:
        return 0, 0
    least = int(log2(rounding.operand_floor)) + 1 if rounding.operand_floor else -1100
    return -int(log2(rounding.operand)), least


def _rounds_to_infinity(rounding: Rounding) -> float:
    """The least magnitude that is rounded to infinity; NaN where none is."""
    if not rounding.operand or not rounding.keeps_exponents:
        return inf - inf
    return float(np.ldexp(1.0 - rounding.operand / 2, 128))
