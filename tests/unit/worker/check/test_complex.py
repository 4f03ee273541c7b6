"""Complex products: multiplied, checked as the real ones that they are, and refused where anything of them is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.accuracy import element_bound
from kernels.model.numerics import COMPLEX_ACCURACY, DTYPES, DTypeName, Problem
from tests.support.kernels.products import assert_right, operands
from worker.check import verify
from worker.check.elements import core
from worker.check.epilogue import wrong_elements
from worker.check.host_matrix import HostMatrix
from worker.check.views.as_real import in_blocks, real_matrices, real_view, signs_of
from worker.cpu.blas import multiply
from worker.cpu.epilogue import add_epilogue
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, host_operands

DTYPES_HERE: tuple[DTypeName, ...] = ("complex64", "complex128")
SIZES = st.integers(1, 24)
Spoil = Callable[[Array], None]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    a_batched, b_batched = draw(st.booleans()), draw(st.booleans())
    return Problem(
        draw(SIZES),
        draw(SIZES),
        draw(SIZES),
        draw(st.sampled_from(DTYPES_HERE)),
        batch=draw(st.integers(1, 3)) if a_batched or b_batched else 1,
        transpose_a=draw(st.booleans()),
        transpose_b=draw(st.booleans()),
        a_batched=a_batched,
        b_batched=b_batched,
        conjugate_a=draw(st.booleans()),
        conjugate_b=draw(st.booleans()),
    )


def passes(problem: Problem, a: Array, b: Array, c: Array, seed: int = 0) -> bool:
    accuracy = COMPLEX_ACCURACY[problem.dtype]
    return bool(verify.check(problem, accuracy, host_operands(problem, a, b, c), np.random.default_rng(seed)).passed)


@settings(max_examples=150, deadline=None)
@given(problems(), st.integers(0, 2**32), st.booleans())
def test_every_product_is_right_and_passes(problem: Problem, seed: int, is_sketched: bool) -> None:
    a, b = operands(problem, np.random.default_rng(seed))
    c = multiply(problem, a, b)
    assert_right(problem, a, b, c)
    with pytest.MonkeyPatch.context() as patch:
        if is_sketched:
            patch.setattr(verify, "MAX_DIRECT", 0)
        assert passes(problem, a, b, c)


@settings(max_examples=100, deadline=None)
@given(problems(), st.integers(0, 2**32))
def test_the_real_product_has_the_parts_of_the_complex_one(problem: Problem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = operands(problem, rng, "integers")
    op_a, op_b = core(a, transposed=problem.transpose_a), core(b, transposed=problem.transpose_b)
    exact = (op_a.conj() if problem.conjugate_a else op_a) @ (op_b.conj() if problem.conjugate_b else op_b)
    blocks = in_blocks(op_b, signs_of(problem))
    np.testing.assert_array_equal(real_view(op_a) @ blocks, real_view(np.ascontiguousarray(exact)))
    real = problem.as_real
    assert (real.m, real.n, real.k, real.flops) == (problem.m, 2 * problem.n, 2 * problem.k, problem.flops)
    # Blocks made where they are read are the same, whole, in parts, transposed, and element by element.
    source = HostMatrix(op_b, problem.dtype)
    _, lazy, _ = real_matrices(problem, HostMatrix(op_a, problem.dtype), source, HostMatrix(exact, problem.dtype))
    assert lazy.shape == blocks.shape
    first = int(rng.integers(blocks.shape[1]))
    rows = slice(first, int(rng.integers(first + 1, blocks.shape[1] + 2)))
    np.testing.assert_array_equal(lazy.part((slice(0, 1), rows)), blocks[:1, rows])
    turned = lazy.transposed()
    np.testing.assert_array_equal(turned.part((slice(None), slice(0, turned.shape[1]))), blocks.swapaxes(1, 2))
    at = np.arange(blocks.shape[1])[:, np.newaxis], np.arange(blocks.shape[2])
    np.testing.assert_array_equal(lazy.item(0).elements(0, *at), blocks[0])


def negated(c: Array) -> None:
    """The imaginary part of one element."""
    c[0, 3, 5] = np.conj(c[0, 3, 5])


def conjugated(c: Array) -> None:
    c[:] = np.conj(c)


def swapped(c: Array) -> None:
    c[:] = c.imag + 1j * c.real


def swapped_once(c: Array) -> None:
    c[0, 1, 2] = complex(c[0, 1, 2].imag, c[0, 1, 2].real)


def bit_flipped(c: Array) -> None:
    """Of a fraction's upper half."""
    parts = c.view(f"u{c.itemsize // 2}")
    parts[0, 7, 11] ^= parts.dtype.type(1 << (18 if c.itemsize == 8 else 40))


def rotated(c: Array) -> None:
    """Times i."""
    c *= 1j


@pytest.mark.parametrize("dtype", DTYPES_HERE)
@pytest.mark.parametrize("spoil", [negated, conjugated, swapped, swapped_once, bit_flipped, rotated])
@pytest.mark.parametrize("k", [40, 300])  # computed again whole, and sketched
def test_each_fault_is_caught(monkeypatch: pytest.MonkeyPatch, dtype: DTypeName, spoil: Spoil, k: int) -> None:
    monkeypatch.setattr(verify, "MAX_DIRECT", 1 << 20)
    problem = Problem(40, 50, k, dtype)
    assert verify.is_direct(problem.as_real) is (k == 40)
    a, b = operands(problem, np.random.default_rng(k))
    c = multiply(problem, a, b)[np.newaxis]
    assert passes(problem, a, b, c)
    spoil(c)
    assert not passes(problem, a, b, c)


@pytest.mark.parametrize("which", ["conjugate_a", "conjugate_b"])
def test_a_conjugate_that_was_not_asked_for_is_caught(which: str) -> None:
    problem = Problem(30, 20, 300, "complex64", transpose_a=True)
    a, b = operands(problem, np.random.default_rng(1))
    other = replace(problem, conjugate_a=which == "conjugate_a", conjugate_b=which == "conjugate_b")
    assert not passes(problem, a, b, multiply(other, a, b))
    assert not passes(other, a, b, multiply(problem, a, b))


@pytest.mark.parametrize("dtype", DTYPES_HERE)
def test_the_bound_is_that_of_a_real_sum_of_twice_the_terms(dtype: DTypeName) -> None:
    accuracy = COMPLEX_ACCURACY[dtype]
    assert element_bound(accuracy, dtype, 50) == element_bound(accuracy, DTYPES[dtype].real, 100)


def test_a_part_that_is_small_beside_the_other_has_its_own_bound() -> None:
    """An error that is nothing to |c| but much to one part: a bound on the modulus alone would let it pass."""
    problem = Problem(8, 8, 64, "complex64")
    rng = np.random.default_rng(2)
    a = (rng.standard_normal((8, 64)) + 1e-6j * rng.standard_normal((8, 64))).astype(np.complex64)
    b = rng.standard_normal((64, 8)).astype(np.complex64)
    c = multiply(problem, a, b)
    assert passes(problem, a, b, c)
    c.imag[2, 3] *= np.float32(1.01)
    assert not passes(problem, a, b, c)


@pytest.mark.parametrize("dtype", DTYPES_HERE)
@pytest.mark.parametrize("n", [4, 70])
def test_overflow_and_infinity_in_one_part_leave_the_other(dtype: DTypeName, n: int) -> None:
    """As real arithmetic has them; BLAS multiplies the sums by 1 + 0i besides, which makes NaN of them."""
    problem = Problem(n, n, 3, dtype)
    a, b = np.zeros((n, 3), STORAGE_DTYPES[dtype]), np.zeros((3, n), STORAGE_DTYPES[dtype])
    a[:, 0], b[0] = DTYPES[dtype].largest / 2, 8j
    a[1] = [0, 0, 1]
    c = multiply(problem, a, b)
    assert np.isposinf(c.imag[0]).all() and (c.real[0] == 0).all() and (c[1] == 0).all()
    assert passes(problem, a, b, c)
    c.real[0, 2] = 1.0
    assert not passes(problem, a, b, c)


def test_zgemm_alone_would_spoil_the_other_part() -> None:
    """Why rows with such elements are made again. Where this fails, BLAS has changed, and that is not needed."""
    a, b = np.full((70, 70), 1e38, np.complex64), np.full((70, 70), 8j, np.complex64)
    with np.errstate(all="ignore"):
        assert np.isnan((a @ b).real).any()


# ---- alpha, beta and C ----
FACTORS = st.sampled_from([1.0, -2.5, 0.3, 1j, -0.7j, 0.1 - 1.3j, 2 + 1e-9j])


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(DTYPES_HERE), FACTORS, FACTORS, st.integers(0, 2**32))
def test_alpha_beta_and_c(dtype: DTypeName, alpha: complex, beta: complex, seed: int) -> None:
    problem = Problem(5, 6, 7, dtype)
    rng = np.random.default_rng(seed)
    a, b = operands(problem, rng)
    c = operands(Problem(5, 6, 6, dtype), rng)[0]
    p = multiply(problem, a, b)
    d = add_epilogue(problem, Epilogue(alpha, beta, HostOperand(c)), p)
    exact = alpha * p.astype(np.complex128) + beta * c.astype(np.complex128)
    np.testing.assert_allclose(d, exact, rtol=4 * DTYPES[dtype].unit_roundoff * 2**0.5, atol=1e-12)
    three = [each[np.newaxis] for each in (d, p, c)]
    assert wrong_elements(three[0], three[1], three[2], alpha, beta, dtype) == 0
    if abs(alpha.imag) > 1e-3:
        assert wrong_elements(three[0], three[1], three[2], complex(alpha).conjugate(), beta, dtype) > 0
    parts = three[0].view(f"u{three[0].itemsize // 2}")
    parts[0, 2, 3] ^= parts.dtype.type(1)  # the last bit of an imaginary part
    assert wrong_elements(three[0], three[1], three[2], alpha, beta, dtype) == 1


def test_a_real_factor_leaves_infinite_parts_apart() -> None:
    p = np.array([[complex(np.inf, 1.0), complex(2.0, np.nan)]], np.complex64)
    d = add_epilogue(Problem(1, 2, 1, "complex64"), Epilogue(2.0, 0.0, None), p)
    assert d[0, 0] == complex(np.inf, 2.0) and d[0, 1].real == 4.0 and np.isnan(d[0, 1].imag)
