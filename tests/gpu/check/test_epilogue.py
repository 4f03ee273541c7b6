"""alpha·A·B + beta·C on a GPU: after kernels of ours and after a library's, checked on the CPU and where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs.errors import OperandDamaged, VerificationFailed
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of
from jobs.models import MatmulRequest
from jobs.requests.operands import OperandRef
from kernels.catalog import BY_NAME
from kernels.model.numerics import DTYPES, REAL_NAMES, DTypeName, Problem
from tests.gpu.products import choice
from tests.support.kernels.products import matrix, operands, stored
from worker.check.elements import as_float64
from worker.check.epilogue import wrong_elements
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, Product, gathered
from worker.product.multiply import verify

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

SMALL, LARGE = (40, 50, 60), (700, 601, 503)  # checked on the CPU, and on the device
SHORT = (1000, 900, 20)  # and there element by element
REF = OperandRef(source="inline", dtype="float32", shape=(1, 1))


def problem_of(size: tuple[int, int, int], dtype: DTypeName, batch: int = 1) -> Problem:
    return Problem(*size, dtype, batch, a_batched=batch > 1)


@contextmanager
def computed(
    runner: CudaRunner, kernel: str, problem: Problem, epilogue: Epilogue, given: tuple[Array, Array]
) -> Iterator[Product]:
    a, b = (HostOperand(each, digest=digest_of(each)) for each in given)
    with runner.compute(problem, choice(runner, kernel, problem), a, b, epilogue=epilogue) as product:
        yield product


def checked(runner: CudaRunner, kernel: str, problem: Problem, product: Product, rng: np.random.Generator) -> None:
    accuracy = BY_NAME[kernel].accuracy[problem.dtype]
    request = MatmulRequest(a=REF, b=REF, kernel=kernel, accuracy=accuracy)
    verify(request, problem, choice(runner, kernel, problem), product, rng)


def sent(c: Array, name: str | None = None) -> HostOperand:
    return HostOperand(c, name, digest_of(c))


def factors_of(dtype: DTypeName) -> tuple[float, float]:
    return (3.0, -5.0) if DTYPES[dtype].is_integer else (0.3, -0.7)


@pytest.mark.parametrize("dtype", REAL_NAMES)
@pytest.mark.parametrize("size", [SMALL, SHORT, LARGE], ids=["small", "short", "large"])
@pytest.mark.parametrize("kernel", ["naive", "warp_tiled", "cublas"])
def test_it_is_what_the_host_makes_of_the_product(
    runner: CudaRunner, kernel: str, size: tuple[int, int, int], dtype: DTypeName, rng: np.random.Generator
) -> None:
    """To the last bit; the device's own check passes, and its digest is that of what comes back."""
    if dtype not in BY_NAME[kernel].dtypes:
        pytest.skip(f"{kernel} has no {dtype}")
    alpha, beta = factors_of(dtype)
    for batch, items in ((1, 1), (3, 3), (3, 1)):
        problem = problem_of(size, dtype, batch)
        given = operands(problem, rng)
        c = matrix((batch, *size[:2]) if items > 1 else size[:2], problem.product_dtype, rng, "integers")
        with computed(runner, kernel, problem, Epilogue(alpha, beta, sent(c)), given) as product:
            checked(runner, kernel, problem, product, rng)
            data = gathered(product.chunks())
            assert digest_of(data) == product.digest
            of_product = product.matrices.elementwise.c
            p = as_stored(of_product.elements, problem)
        d = np.frombuffer(data, STORAGE_DTYPES[problem.product_dtype]).reshape(batch, *size[:2])
        added = c if c.ndim == 3 else c[np.newaxis]
        assert wrong_elements(d, p, added, alpha, beta, problem.product_dtype) == 0
        assert not np.array_equal(d, p)


def as_stored(elements: Any, problem: Problem) -> Array:
    """A·B, which the product has beside what it delivers."""
    rows, columns = np.arange(problem.m)[:, np.newaxis], np.arange(problem.n)
    whole = np.stack([elements(item, rows, columns) for item in range(problem.batch)])
    return stored(whole, problem.product_dtype)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_a_term_of_factor_0_is_left_out(
    runner: CudaRunner, size: tuple[int, int, int], rng: np.random.Generator
) -> None:
    problem = problem_of(size, "float32")
    given, c = operands(problem, rng), matrix(size[:2], "float32", rng)
    nan = (np.full_like(given[0], np.nan), given[1])
    with computed(runner, "naive", problem, Epilogue(0.0, 2.0, sent(c)), nan) as product:
        assert product.wrong_elements() == 0
        np.testing.assert_array_equal(np.frombuffer(gathered(product.chunks()), np.float32).reshape(c.shape), 2 * c)
    with computed(runner, "naive", problem, Epilogue(0.5, 0.0, None), given) as product:
        checked(runner, "naive", problem, product, rng)
        half = np.frombuffer(gathered(product.chunks()), np.float32)
    a, b = map(HostOperand, given)
    with runner.compute(problem, choice(runner, "naive", problem), a, b) as plain:
        np.testing.assert_array_equal(half, np.frombuffer(gathered(plain.chunks()), np.float32) / 2)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_a_bit_that_flips_in_the_result_is_found(
    runner: CudaRunner, size: tuple[int, int, int], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.gpu.test_damage import flip_on_device
    from worker.cuda.epilogue.on_device import EpilogueOnDevice

    launch = EpilogueOnDevice.launch

    def damaged(self: EpilogueOnDevice) -> None:
        launch(self)
        flip_on_device(self.d, 8)

    monkeypatch.setattr(EpilogueOnDevice, "launch", damaged)
    problem = problem_of(size, "float32")
    epilogue = Epilogue(2.0, 1.0, sent(matrix(size[:2], "float32", rng)))
    with computed(runner, "naive", problem, epilogue, operands(problem, rng)) as product:
        assert product.wrong_elements() == 1
        with pytest.raises(VerificationFailed, match="1 of its elements"):
            checked(runner, "naive", problem, product, rng)


def test_a_c_that_flips_on_its_way_is_found(
    runner: CudaRunner, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.gpu.test_damage import flip_on_device
    from worker.cuda.memory import DeviceMatrix, upload
    from worker.cuda.products import operands as of_operands

    uploads = iter(range(3))

    def damaged(elements: Array, matrix: DeviceMatrix) -> None:
        upload(elements, matrix)
        if next(uploads) == 2:
            flip_on_device(matrix, 0)

    monkeypatch.setattr(of_operands, "upload", damaged)
    problem = problem_of(LARGE, "float32")
    epilogue = Epilogue(1.0, 1.0, sent(matrix(LARGE[:2], "float32", rng)))
    refused = pytest.raises(OperandDamaged)
    with computed(runner, "naive", problem, epilogue, operands(problem, rng)) as product, refused:
        checked(runner, "naive", problem, product, rng)


def test_c_stays_on_the_device_and_may_be_another_operand(runner: CudaRunner, rng: np.random.Generator) -> None:
    """A·A + A: one copy serves all three."""
    problem = Problem(600, 600, 600, "float32")
    a = matrix((600, 600), "float32", rng)
    operand = sent(a, "d" * 64)
    for _ in range(2):
        with runner.compute(
            problem, choice(runner, "naive", problem), operand, operand, epilogue=Epilogue(1.0, 1.0, operand)
        ) as product:
            checked(runner, "naive", problem, product, rng)
            d = np.frombuffer(gathered(product.chunks()), np.float32).reshape(600, 600)
        kept = runner.cache.get("d" * 64)
        assert kept is not None and runner.cache.bytes == kept.copy.layout.bytes
    np.testing.assert_allclose(d, as_float64(a, "float32") @ a + a, rtol=1e-3, atol=1e-3)
