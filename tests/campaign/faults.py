"""What goes wrong with a product: each kind of fault by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import floor, log
from typing import Literal

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES
from tests.campaign.data import OVERFLOW
from tests.campaign.scenes import Scene
from tests.support.kernels.products import stored
from worker.check.elements import as_float64, core
from worker.cpu.blas import multiply

LARGEST_SIZE = 1e6  # of a fault whose size is drawn, in bounds of an element's class
BLOCKS_OF_K = (1, 8, 16, 32, 64)
Spoil = Callable[[Scene, Array, np.random.Generator], None]  # changes a copy of the product; no change: not applicable
Stage = Literal["product", "operands", "late"]


@dataclass(frozen=True, slots=True)
class Fault:
    spoil: Spoil
    stage: Stage = "product"
    data: str = ""  # alone of these operands; of any where it is empty
    of_complex: bool = False  # alone of complex products, whose parts are elements here


def _place(c: Array, rng: np.random.Generator) -> tuple[int, int, int]:
    batch, m, n = c.shape
    return int(rng.integers(batch)), int(rng.integers(m)), int(rng.integers(n))


def _two(count: int, rng: np.random.Generator) -> tuple[int, int]:
    """Two different ones; twice the same where there is one."""
    first, second = rng.choice(count, 2, replace=False) if count > 1 else (0, 0)
    return int(first), int(second)


def _amount(scene: Scene, at: tuple[int, int, int], rng: np.random.Generator) -> float:
    """Of either sign, log-uniform from 1 to LARGEST_SIZE bounds of that element."""
    sign = float(rng.choice((-1.0, 1.0)))
    size = float(np.exp(rng.uniform(0.0, log(LARGEST_SIZE))))
    if DTYPES[scene.problem.product_dtype].is_integer:
        return sign * floor(min(size * size, 2.0**31 - 1))
    bound = float(scene.truth.bound[at])
    return sign * size * (bound if np.isfinite(bound) else 1.0)


def add(scene: Scene, c: Array, at: tuple[int | slice, ...], amount: float) -> None:
    """In the product's type: rounded once, integers modulo 2³²."""
    dtype = scene.problem.product_dtype
    if DTYPES[dtype].is_integer:
        c[at] = (c[at].astype(np.int64) + int(amount)).astype(np.int32)
        return
    with np.errstate(all="ignore"):
        c[at] = stored(as_float64(np.asarray(c[at]), dtype) + amount, dtype)


def one_element(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    at = _place(c, rng)
    add(scene, c, at, _amount(scene, at, rng))


def opposite_in_a_row(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    item, row, _ = _place(c, rng)
    first, second = _two(c.shape[2], rng)
    amount = _amount(scene, (item, row, first), rng)
    if first != second:
        add(scene, c, (item, row, first), amount)
        add(scene, c, (item, row, second), -amount)


def opposite_in_two_rows(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    item, _, column = _place(c, rng)
    first, second = _two(c.shape[1], rng)
    amount = _amount(scene, (item, first, column), rng)
    if first != second:
        add(scene, c, (item, first, column), amount)
        add(scene, c, (item, second, column), -amount)


def rows_swapped(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    item, pair = int(rng.integers(len(c))), list(_two(c.shape[1], rng))
    c[item, pair] = c[item, pair[::-1]]


def columns_swapped(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    item, pair = int(rng.integers(len(c))), list(_two(c.shape[2], rng))
    c[item][:, pair] = c[item][:, pair[::-1]]


def swapped_in_a_row(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    item, row, _ = _place(c, rng)
    pair = list(_two(c.shape[2], rng))
    c[item, row, pair] = c[item, row, pair[::-1]]


def _tile(c: Array, height: int, width: int, rng: np.random.Generator) -> tuple[int, slice, slice] | None:
    """Somewhere on the grid of such tiles; None where the product is smaller than one."""
    batch, m, n = c.shape
    if m < height or n < width:
        return None
    row, column = int(rng.integers(m // height)) * height, int(rng.integers(n // width)) * width
    return int(rng.integers(batch)), slice(row, row + height), slice(column, column + width)


def tile_raised(height: int, width: int) -> Spoil:
    def raised(scene: Scene, c: Array, rng: np.random.Generator) -> None:
        if (at := _tile(c, height, width, rng)) is not None:
            add(scene, c, at, _amount(scene, (at[0], at[1].start, at[2].start), rng))

    return raised


def row_zeroed(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    item, row, _ = _place(c, rng)
    c[item, row] = 0


def column_zeroed(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    item, _, column = _place(c, rng)
    c[item, :, column] = 0


def all_but_one_column_zeroed(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    """The one that is largest."""
    item = int(rng.integers(len(c)))
    sizes = np.abs(as_float64(c[item], scene.problem.product_dtype)).max(axis=0)
    c[item][:, np.arange(c.shape[2]) != np.argmax(sizes)] = 0


def row_stale(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    item, row, _ = _place(c, rng)
    c[item, row] = scene.other[item, row]


def column_stale(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    item, _, column = _place(c, rng)
    c[item, :, column] = scene.other[item, :, column]


def tile_of_another_job(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    if (at := _tile(c, 16, 16, rng)) is not None:
        c[at] = scene.other[at]


def _bits(c: Array) -> Array:
    return c.view(f"u{c.itemsize}")


def bit_flipped(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    """Any position."""
    bits = _bits(c)
    bits[_place(c, rng)] ^= bits.dtype.type(1 << int(rng.integers(8 * c.itemsize)))


def _flip_pair(c: Array, position: int, rng: np.random.Generator) -> None:
    item, row, _ = _place(c, rng)
    first, second = _two(c.shape[2], rng)
    bits = _bits(c)
    if first != second:
        bits[item, row, [first, second]] ^= bits.dtype.type(1 << position)


def bit_flipped_twice_in_a_row(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    _flip_pair(c, int(rng.integers(8 * c.itemsize)), rng)


def top_bit_flipped_in_two_columns(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    """Of integers 2³¹, twice of which is 0 modulo 2³²; the sign of floats."""
    bits, item = _bits(c), int(rng.integers(len(c)))
    first, second = _two(c.shape[2], rng)
    for column in {first, second}:
        bits[item, :, column] ^= bits.dtype.type(1 << (8 * c.itemsize - 1))


def row_scaled(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    """By 1 + 2⁻²⁰ up to 2, or by a power of two."""
    item, row, _ = _place(c, rng)
    dtype = scene.problem.product_dtype
    factor = 1.0 + 2.0 ** rng.uniform(-20, 0) if rng.random() < 0.5 else 2.0 ** int(rng.integers(1, 9))
    with np.errstate(all="ignore"):
        values = as_float64(c[item, row], dtype) * factor
        c[item, row] = values.astype(np.int64).astype(np.int32) if DTYPES[dtype].is_integer else stored(values, dtype)


def k_truncated(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    """The last steps were left out."""
    problem, (item, row, _) = scene.problem, _place(c, rng)
    steps = min(problem.k, int(rng.choice(BLOCKS_OF_K)))
    a, b = (
        core(each, transposed=transposed)
        for each, transposed in ((scene.a, problem.transpose_a), (scene.b, problem.transpose_b))
    )
    last_a, last_b = a[item % len(a)][:, problem.k - steps :], b[item % len(b)][problem.k - steps :]
    rows = slice(None) if rng.random() < 0.5 else slice(row, row + 1)  # the whole product, or one row
    dtype = problem.product_dtype
    if DTYPES[dtype].is_integer:
        c[item, rows] -= (last_a[rows].astype(np.int64) @ last_b.astype(np.int64)).astype(np.int32)
        return
    with np.errstate(all="ignore"):
        lost = as_float64(last_a[rows], problem.dtype) @ as_float64(last_b, problem.dtype)
        c[item, rows] = stored(as_float64(c[item, rows], dtype) - lost, dtype)


def beside_an_overflow(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    """A wrong element where it should be finite; another, in its row mostly, is infinite as it should be."""
    finite = np.argwhere(np.isfinite(as_float64(c, scene.problem.product_dtype)))
    if len(finite) and len(finite) < c.size:
        item, row, column = (int(each) for each in finite[rng.integers(len(finite))])
        add(scene, c, (item, row, column), _amount(scene, (item, row, column), rng))


def imaginary_part_negated(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    """Of one element."""
    item, row, column = _place(c, rng)
    c[item, row, column | 1] *= -1


def conjugated(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    c[:, :, 1::2] *= -1


def parts_swapped(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    c[:] = c.reshape(*c.shape[:-1], -1, 2)[..., ::-1].reshape(c.shape)


def of_a_conjugated_operand(scene: Scene, c: Array, rng: np.random.Generator) -> None:
    """A's or B's conjugate was multiplied, or not multiplied."""
    asked = scene.asked
    of_a = bool(rng.integers(2))
    problem = replace(asked, conjugate_a=asked.conjugate_a ^ of_a, conjugate_b=asked.conjugate_b ^ (not of_a))
    c[:] = scene.shown(multiply(problem, *scene.sent)).reshape(c.shape)


def operand_changed(scene: Scene, operand: Array, rng: np.random.Generator) -> None:
    """A bit of an element, or up to 1,024 elements in a row of memory overwritten by one of them."""
    flat = scene.shown(operand.reshape(-1))
    start = int(rng.integers(flat.size))
    if rng.random() < 0.5:
        bits = _bits(flat)
        bits[start] ^= bits.dtype.type(1 << int(rng.integers(8 * flat.itemsize)))
    else:
        flat[start : start + 1024] = flat[rng.integers(flat.size)]


FAULTS: Mapping[str, Fault] = {
    "one element": Fault(one_element),
    "two opposite elements in a row": Fault(opposite_in_a_row),
    "two opposite elements in two rows": Fault(opposite_in_two_rows),
    "two rows swapped": Fault(rows_swapped),
    "two columns swapped": Fault(columns_swapped),
    "two elements of a row swapped": Fault(swapped_in_a_row),
    "a constant added to a 16×16 tile": Fault(tile_raised(16, 16)),
    "a constant added to a 16×2 tile": Fault(tile_raised(16, 2)),
    "a constant added to a 128×128 tile": Fault(tile_raised(128, 128)),
    "a row zeroed": Fault(row_zeroed),
    "a column zeroed": Fault(column_zeroed),
    "all but the largest column zeroed": Fault(all_but_one_column_zeroed),
    "a stale row": Fault(row_stale),
    "a stale column": Fault(column_stale),
    "a tile of another job": Fault(tile_of_another_job),
    "a bit flipped": Fault(bit_flipped),
    "a bit flipped in two elements of a row": Fault(bit_flipped_twice_in_a_row),
    "the top bit flipped in two columns": Fault(top_bit_flipped_in_two_columns),
    "a row scaled": Fault(row_scaled),
    "the last steps of k left out": Fault(k_truncated),
    "a wrong element beside an overflow": Fault(beside_an_overflow, data=OVERFLOW),
    "an imaginary part negated": Fault(imaginary_part_negated, of_complex=True),
    "the product conjugated": Fault(conjugated, of_complex=True),
    "real and imaginary parts swapped": Fault(parts_swapped, of_complex=True),
    "an operand wrongly conjugated": Fault(of_a_conjugated_operand, of_complex=True),
    "an operand changed after upload": Fault(operand_changed, stage="operands"),
    "the product changed after the check": Fault(one_element, stage="late"),
}
