"""`cpu_blas`: products by numpy's BLAS, for every element type.

BLAS knows float32, float64 and complex numbers made of them. Floats of 16 and 8 bits are widened block by block, and
16-bit products rounded once at the end. Integers are multiplied in floats wide enough for every partial sum to be
exact, and the blocks are added modulo 2³².

BLAS multiplies each complex sum by an alpha of 1 + 0i, and 0 times infinity is NaN: where one part of an element
overflows it spoils the other. Rows with such elements are recomputed as real products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.numerics import DTYPES, DTypeName, Problem
from worker.check.elements import as_float64, core, narrow, widen
from worker.check.views.as_real import in_blocks, real_view, signs_of

# Side of a block of the product in types that BLAS does not know: BLAS is at full speed there, and the widened copies
# of two operand blocks stay below 100 MiB however large the operands are.
BLOCK = 2048
INT8_DEPTH = 1024  # |sum| ≤ 1024 · 2⁷ · 2⁷ = 2²⁴: every partial sum is an integer that float32 holds
INT32_DEPTH = BLOCK  # halves of int32 stay below 2⁵³ at any depth up to 2²²
EXACT_FLOAT64 = 2**53

Partial = Callable[[Array, Array], Array]  # (rows, depth) and (depth, columns) → (rows, columns) to be summed


def multiply(problem: Problem, a: Array, b: Array, out: Array | None = None) -> Array:
    """C of shape `problem.product_shape`, in the product's stored type; written to `out` where there is one. `a` and
    `b` are not yet transposed."""
    c = np.empty(problem.product_shape, STORAGE_DTYPES[problem.product_dtype]) if out is None else out
    c = c.reshape(problem.batch, problem.m, problem.n)
    if problem.symmetric:
        b = a  # of a matrix by its own transpose numpy asks BLAS for one triangle (syrk), and mirrors it
    op_a, op_b = core(a, transposed=problem.transpose_a), core(b, transposed=problem.transpose_b)
    with np.errstate(all="ignore"):  # overflow and NaN are answers here, by IEEE rules
        if problem.dtype in ("float32", "float64"):
            np.matmul(op_a, op_b, out=c)
        elif DTYPES[problem.dtype].is_complex:
            _complex(problem, op_a, op_b, c)
        else:
            for items in _groups(problem):
                _blockwise(problem.dtype, _part(op_a, items), _part(op_b, items), c[items])
    return c.reshape(problem.product_shape)


def multiply_in_float64(problem: Problem, a: Array, b: Array, out: Array | None = None) -> Array:
    """`multiply` for floats of up to 32 bits, with sums in float64 that are rounded to the product's type at the
    end."""
    c = np.empty(problem.product_shape, STORAGE_DTYPES[problem.product_dtype]) if out is None else out
    c = c.reshape(problem.batch, problem.m, problem.n)
    op_a, op_b = core(a, transposed=problem.transpose_a), core(b, transposed=problem.transpose_b)
    with np.errstate(all="ignore"):
        for items in _groups(problem):
            _blockwise(problem.dtype, _part(op_a, items), _part(op_b, items), c[items], wide=True)
    return c.reshape(problem.product_shape)


def _complex(problem: Problem, a: Array, b: Array, c: Array) -> None:
    of_a, of_b = (
        np.conjugate(each) if conjugated else each
        for each, conjugated in ((a, problem.conjugate_a), (b, problem.conjugate_b))
    )
    np.matmul(of_a, of_b, out=c)
    spoilt: Array = np.any(~np.isfinite(c), axis=2)
    for item in np.flatnonzero(np.any(spoilt, axis=1)):
        rows, own_a, own_b = np.flatnonzero(spoilt[item]), a[item % len(a)], b[item % len(b)]
        for columns in _blocks(problem.n, BLOCK // 2):
            blocks = in_blocks(own_b[np.newaxis, :, columns], signs_of(problem))[0]
            for some in (rows[height] for height in _blocks(len(rows), BLOCK)):
                c[item, some, columns] = np.matmul(real_view(own_a[some]), blocks).view(c.dtype)


def _groups(problem: Problem) -> Iterator[slice]:
    """Slices of the batch that are multiplied together: many items if they are small."""
    largest = max(problem.m * problem.k, problem.k * problem.n, problem.m * problem.n)
    return _blocks(problem.batch, max(1, BLOCK**2 // largest))


def _part(matrix: Array, items: slice) -> Array:
    """These items of a matrix, or the matrix itself if it is shared by the whole batch."""
    return matrix if len(matrix) == 1 else matrix[items]


def _blockwise(dtype: DTypeName, a: Array, b: Array, c: Array, *, wide: bool = False) -> None:
    """Writes a·b into `c`, block by block, so that temporaries stay small. `wide`: summed in float64."""
    depth, total_dtype, partial = _wide_arithmetic(dtype) if wide else _arithmetic(dtype)
    for rows in _blocks(c.shape[1], BLOCK):
        for columns in _blocks(c.shape[2], BLOCK):
            total = np.zeros(c[:, rows, columns].shape, dtype=total_dtype)
            for inner in _blocks(a.shape[2], depth):
                total += partial(a[:, rows, inner], b[:, inner, columns])
            c[:, rows, columns] = total if total.dtype == c.dtype else _narrowed(total, dtype)


def _blocks(extent: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, extent, size))


def _arithmetic(dtype: DTypeName) -> tuple[int, type[np.generic], Partial]:
    """Depth of a block along k, the type in which blocks are summed, and how a block is multiplied."""
    if dtype == "int8":
        return INT8_DEPTH, np.int32, _int8_partial
    if dtype == "int32":
        return INT32_DEPTH, np.int32, _int32_partial
    return BLOCK, np.float32, lambda a, b: np.matmul(widen(a, dtype), widen(b, dtype))


def _wide_arithmetic(dtype: DTypeName) -> tuple[int, type[np.generic], Partial]:
    return BLOCK, np.float64, lambda a, b: np.matmul(as_float64(a, dtype), as_float64(b, dtype))


def _narrowed(total: Array, dtype: DTypeName) -> Array:
    """Rounds float64 or float32 sums to the type of a product of `dtype` operands."""
    return narrow(total.astype(np.float32), DTYPES[dtype].product)


def _int8_partial(a: Array, b: Array) -> Array:
    exact: Array = np.matmul(a.astype(np.float32), b.astype(np.float32))
    return exact.astype(np.int32)


def _int32_partial(a: Array, b: Array) -> Array:
    """a·b modulo 2³². Where sums could pass 2⁵³, both are cut into 16-bit halves, x = high · 2¹⁶ + low.

    The product of the high halves is a multiple of 2³² and drops out; the other three are exact in float64.
    """
    if _magnitude(a) * _magnitude(b) * a.shape[-1] <= EXACT_FLOAT64:
        return _wrapped(np.matmul(a.astype(np.float64), b.astype(np.float64)))
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    crossed = np.matmul(a_high, b_low) + np.matmul(a_low, b_high)
    total: Array = _wrapped(np.matmul(a_low, b_low)) + (_wrapped(crossed) << np.int32(16))
    return total


def _halves(values: Array) -> tuple[Array, Array]:
    """High and low 16 bits in float64; the low half is signed, and the high one makes up for it."""
    low = values.astype(np.int16)
    high = (values - low.astype(np.int64)) >> 16
    return high.astype(np.float64), low.astype(np.float64)


def _magnitude(values: Array) -> int:
    return max(-int(values.min(initial=0)), int(values.max(initial=0)))


def _wrapped(exact: Array) -> Array:
    """Integers below 2⁵³ in float64, modulo 2³², as int32."""
    return exact.astype(np.int64).astype(np.int32)
