"""Operands of every element type and the products they must give, for tests of kernels and of the check."""

from __future__ import annotations

from typing import Literal

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.accuracy import SMALLEST_POSITIVE
from kernels.model.numerics import DTYPES, DTypeName, Problem
from worker.check.elements import as_float64, core, narrow
from worker.cpu import blas as cpu_blas

Data = Literal["normal", "uniform", "integers", "wide", "constant", "ramp", "sparse", "tiny"]
SLOW_FLOPS = 1e7  # for Python's own numbers
FLOAT_DATA: tuple[Data, ...] = ("normal", "uniform", "integers", "wide", "constant", "ramp", "sparse", "tiny")


def operands(problem: Problem, rng: np.random.Generator, data: Data = "normal") -> tuple[Array, Array]:
    """A and B as they are stored, before transposition."""
    a = (problem.k, problem.m) if problem.transpose_a else (problem.m, problem.k)
    b = (problem.n, problem.k) if problem.transpose_b else (problem.k, problem.n)
    return (
        matrix((problem.batch, *a) if problem.a_batched else a, problem.dtype, rng, data),
        matrix((problem.batch, *b) if problem.b_batched else b, problem.dtype, rng, data),
    )


def matrix(shape: tuple[int, ...], dtype: DTypeName, rng: np.random.Generator, data: Data = "normal") -> Array:
    """Elements in stored form. Integers span their whole range, but for `integers`."""
    if DTYPES[dtype].is_integer:
        limits = np.iinfo(STORAGE_DTYPES[dtype])
        low, high = (-8, 8) if data == "integers" else (limits.min, limits.max)
        return rng.integers(low, high, size=shape, dtype=STORAGE_DTYPES[dtype], endpoint=True)
    if DTYPES[dtype].is_complex:
        return stored(_floats(shape, rng, data) + 1j * _floats(shape, rng, data), dtype)
    return stored(_floats(shape, rng, data), dtype)


def stored(values: Array, dtype: DTypeName) -> Array:
    """Rounded once to the element type."""
    if not DTYPES[dtype].is_integer and DTYPES[dtype].itemsize < 4:
        return narrow(np.asarray(values, np.float32, order="C"), dtype)
    return np.asarray(values, STORAGE_DTYPES[dtype], order="C")


def _floats(shape: tuple[int, ...], rng: np.random.Generator, data: Data) -> Array:
    normal = rng.standard_normal(shape)
    match data:
        case "uniform":
            return rng.random(shape)
        case "integers":
            return rng.integers(-8, 8, size=shape, endpoint=True).astype(np.float64)
        case "wide":  # elements of very different size in one row
            return np.ldexp(normal, rng.integers(-6, 7, size=shape))
        case "constant":  # rounds the same way at every step
            return np.full(shape, 0.1)
        case "ramp":  # sums rise and fall again
            return np.broadcast_to(np.linspace(-1.0, 1.0, shape[-1]), shape)
        case "sparse":
            return np.where(rng.random(shape) < 0.05, normal, 0.0)
        case "tiny":
            return normal * 1e-5
        case _:
            return normal


def exact(problem: Problem, a: Array, b: Array) -> Array:
    """The product of integers modulo 2³², by Python's own numbers; large ones by `cpu_blas`, which is held to those."""
    if problem.flops > SLOW_FLOPS:
        return cpu_blas.multiply(problem, a, b)
    op_a = core(a, transposed=problem.transpose_a).astype(object)
    op_b = core(b, transposed=problem.transpose_b).astype(object)
    product = np.matmul(op_a, op_b) if problem.k else np.zeros((problem.batch, problem.m, problem.n), object)
    wrapped: Array = ((product + 2**31) % 2**32 - 2**31).astype(np.int32)
    return np.broadcast_to(wrapped, (problem.batch, problem.m, problem.n)).reshape(problem.product_shape)


def in_float64(problem: Problem, a: Array, b: Array) -> tuple[Array, Array]:
    """The product in float64, and |A|·|B|, which bounds what rounding can do to it. Of a complex one both are complex,
    and the parts of the bound are those of the product's parts."""
    if DTYPES[problem.dtype].is_complex:
        return _parts_in_float64(problem, a, b)
    op_a = as_float64(core(a, transposed=problem.transpose_a), problem.dtype)
    op_b = as_float64(core(b, transposed=problem.transpose_b), problem.dtype)
    with np.errstate(all="ignore"):
        return (op_a @ op_b).reshape(problem.product_shape), (np.abs(op_a) @ np.abs(op_b)).reshape(
            problem.product_shape
        )


def _parts_in_float64(problem: Problem, a: Array, b: Array) -> tuple[Array, Array]:
    op_a, op_b = (core(a, transposed=problem.transpose_a), core(b, transposed=problem.transpose_b))
    (ar, ai), (br, bi) = ((each.real.astype(np.float64), each.imag.astype(np.float64)) for each in (op_a, op_b))
    ai, bi = -ai if problem.conjugate_a else ai, -bi if problem.conjugate_b else bi
    magnitudes = [np.abs(each) for each in (ar, ai, br, bi)]
    with np.errstate(all="ignore"):
        true = np.empty((problem.batch, problem.m, problem.n), np.complex128)
        true.real, true.imag = ar @ br - ai @ bi, ar @ bi + ai @ br
        bound = np.empty_like(true)
        bound.real = magnitudes[0] @ magnitudes[2] + magnitudes[1] @ magnitudes[3]
        bound.imag = magnitudes[0] @ magnitudes[3] + magnitudes[1] @ magnitudes[2]
    return true.reshape(problem.product_shape), bound.reshape(problem.product_shape)


def assert_right(problem: Problem, a: Array, b: Array, c: Array) -> None:
    """Integers to the last bit; floats within the bound for sums in any order, k steps deep."""
    assert c.shape == problem.product_shape
    assert c.dtype == STORAGE_DTYPES[problem.product_dtype]
    if DTYPES[problem.dtype].is_integer:
        np.testing.assert_array_equal(c, exact(problem, a, b))
        return
    true, bound = in_float64(problem, a, b)
    if DTYPES[problem.dtype].is_complex:  # each part by itself
        c, true, bound = (np.ascontiguousarray(each).view(each.real.dtype) for each in (c, true, bound))
    problem = problem.as_real
    step = 2.0**-53 if problem.dtype == "float64" else 2.0**-24
    output = DTYPES[problem.product_dtype].unit_roundoff
    granted = 2 * problem.k * step * bound + output * np.abs(true) + SMALLEST_POSITIVE[problem.product_dtype]
    given = as_float64(c, problem.product_dtype)
    assert np.all(np.abs(given - true) <= granted), f"off by {np.max(np.abs(given - true) / granted):.3g} × the bound"


def sum_in_order(a: Array, b: Array) -> Array:
    """A·B in float32, each step of a sum rounded."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for step in range(a.shape[1]):
        total += a[:, step, np.newaxis] * b[np.newaxis, step]
    return total
