"""Complex products on a GPU: by cuBLAS and as real ones, checked on the CPU and where they lie; and what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.benchmarks.cases import Case
from jobs.benchmarks.spec import DataSpec
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of
from kernels.model.numerics import COMPLEX_ACCURACY, DTYPES, DTypeName, Problem
from tests.gpu.products import choice, multiply
from tests.support.kernels.products import assert_right, matrix, operands
from worker.check.epilogue import wrong_elements
from worker.check.verify import check
from worker.check.views.as_real import real_view
from worker.cpu import blas as cpu_blas
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, gathered

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

KERNELS = ("cublas", "complex_as_real")
TYPES: tuple[DTypeName, ...] = ("complex64", "complex128")
SMALL, SHORT, LARGE = (33, 17, 29), (700, 601, 40), (701, 603, 509)  # checked on the CPU, by element, sketched
TURNS = ["0000", "1010", "0101", "1101", "0011"]  # A and B transposed, A and B conjugated


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [SMALL, SHORT, LARGE])
@pytest.mark.parametrize("turns", TURNS)
def test_every_way_of_operands(
    runner: CudaRunner,
    rng: np.random.Generator,
    kernel: str,
    dtype: DTypeName,
    size: tuple[int, int, int],
    turns: str,
) -> None:
    transpose_a, transpose_b, conjugate_a, conjugate_b = (turn == "1" for turn in turns)
    problem = Problem(*size, dtype, 1, transpose_a, transpose_b, False, False, conjugate_a, conjugate_b)
    a, b = operands(problem, rng)
    c, verification, measured = multiply(runner, kernel, problem, a, b, rng)
    assert verification.passed and measured.kernel_ms > 0
    assert_right(problem, a, b, c)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_batches(runner: CudaRunner, rng: np.random.Generator, kernel: str, batched: tuple[bool, bool]) -> None:
    for size in (SMALL, (130, 140, 150)):
        problem = Problem(*size, "complex64", 3, True, False, *batched, True, False)
        a, b = operands(problem, rng)
        c, verification, _ = multiply(runner, kernel, problem, a, b, rng)
        assert verification.passed
        assert_right(problem, a, b, c)


def negated(c: Array) -> None:
    c.imag[0, 5, 7] *= -1


def swapped(c: Array) -> None:
    c[:] = c.imag + 1j * c.real


def conjugated(c: Array) -> None:
    c[:] = c.conj()


def bit_flipped(c: Array) -> None:
    parts = c.view(f"u{c.itemsize // 2}")
    parts[0, 600, 1201] ^= parts.dtype.type(1 << (18 if c.itemsize == 8 else 40))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [SHORT, LARGE])
@pytest.mark.parametrize("spoil", [negated, swapped, conjugated, bit_flipped])
def test_faults_are_caught_where_the_product_lies(
    runner: CudaRunner,
    rng: np.random.Generator,
    dtype: DTypeName,
    size: tuple[int, int, int],
    spoil: Callable[[Array], None],
) -> None:
    from worker.cuda.check.device_product import DeviceProduct
    from worker.cuda.check.matrices import MatrixOnDevice
    from worker.cuda.memory import upload

    problem = Problem(*size, dtype)
    a, b = operands(problem, rng)
    with runner.compute(problem, choice(runner, "cublas", problem), HostOperand(a), HostOperand(b)) as product:
        c = np.frombuffer(gathered(product.chunks()), STORAGE_DTYPES[dtype]).reshape(1, problem.m, problem.n).copy()
        assert check(problem, COMPLEX_ACCURACY[dtype], product.matrices, rng).passed
        spoil(c)
        assert isinstance(product.matrices, DeviceProduct)
        on_device = product.matrices.elementwise.c
        assert isinstance(on_device, MatrixOnDevice)
        parts = c.view(STORAGE_DTYPES[DTYPES[dtype].real])
        upload(np.ascontiguousarray(parts), on_device.matrix)
        assert not check(problem, COMPLEX_ACCURACY[dtype], product.matrices, rng).passed


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [SMALL, (300, 310, 64)])
def test_an_infinite_part_leaves_the_other(
    runner: CudaRunner, rng: np.random.Generator, kernel: str, dtype: DTypeName, size: tuple[int, int, int]
) -> None:
    problem = Problem(*size, dtype)
    a, b = (np.zeros(shape, STORAGE_DTYPES[dtype]) for shape in ((size[0], size[2]), (size[2], size[1])))
    a[:, 0], b[0] = DTYPES[dtype].largest / 2, 8j
    c, verification, _ = multiply(runner, kernel, problem, a, b, rng)
    assert verification.passed and np.isposinf(c.imag).all() and (c.real == 0).all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_operands_that_are_not_finite(
    runner: CudaRunner, rng: np.random.Generator, kernel: str, dtype: DTypeName, size: tuple[int, int, int]
) -> None:
    """They are numbers like others: by any kernel, each part is what the host's real product gives."""
    problem = Problem(*size, dtype, conjugate_a=True)
    a, b = operands(problem, rng)
    a[3, 7], a[5, 8], b[9, 11] = complex(np.inf, 1), complex(2, np.nan), complex(0.5, -np.inf)
    c, verification, _ = multiply(runner, kernel, problem, a, b, rng)
    assert verification.passed
    true = cpu_blas.multiply(problem, a, b)
    for test in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(test(real_view(c)), test(real_view(true)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("factors", [(0.5 - 1.25j, 1j), (2.0, 0.0), (0.0, -3 + 0.1j)])
def test_alpha_beta_and_c(
    runner: CudaRunner, rng: np.random.Generator, dtype: DTypeName, size: tuple[int, int, int],
    factors: tuple[complex, complex],
) -> None:  # fmt: skip
    problem = Problem(*size, dtype)
    a, b = operands(problem, rng)
    added = matrix((problem.m, problem.n), dtype, rng)
    epilogue = Epilogue(*factors, HostOperand(added, digest=digest_of(added)) if factors[1] else None)
    given = HostOperand(a), HostOperand(b)
    with runner.compute(problem, choice(runner, "cublas", problem), *given, epilogue=epilogue) as product:
        assert check(problem, COMPLEX_ACCURACY[dtype], product.matrices, rng).passed
        assert product.wrong_elements() == 0
        d = np.frombuffer(gathered(product.chunks()), STORAGE_DTYPES[dtype]).reshape(1, problem.m, problem.n)
    p, verification, _ = multiply(runner, "cublas", problem, a, b, rng)
    assert verification.passed and wrong_elements(d, p[np.newaxis], added[np.newaxis], *factors, dtype) == 0


def test_a_product_stays_as_an_operand(runner: CudaRunner, rng: np.random.Generator) -> None:
    """Padding that a padded real product left in it meets nothing."""
    problem = Problem(150, 150, 150, "complex64")
    a, b = operands(problem, rng, "integers")
    c, verification, _ = multiply(runner, "complex_as_real", problem, a, b, rng, ids=("a", "b"))
    again, also, _ = multiply(runner, "complex_as_real", problem, a, b, rng, ids=("a", "b"))
    assert verification.passed and also.passed and np.array_equal(c, again)


@pytest.mark.parametrize("dtype", TYPES)
def test_kernels_are_timed_and_compared(runner: CudaRunner, dtype: DTypeName) -> None:
    """In a benchmark: of each kernel a time, the errors of its product, and the check of it."""
    problem = Problem(600, 500, 400, dtype)
    with runner.bench(problem, DataSpec()) as bench:
        for kernel in KERNELS:
            bench.poison()
            prepared = bench.prepare(Case(kernel, {}, problem))
            assert prepared.sample(3, "cold").time_us > 0
            assert check(problem, COMPLEX_ACCURACY[dtype], bench.matrices(), np.random.default_rng()).passed
            errors = bench.errors_vs_float64()
            assert errors is not None and errors.frobenius < 100 * DTYPES[dtype].unit_roundoff
            assert bench.largest_error_ratio() <= 1.0
