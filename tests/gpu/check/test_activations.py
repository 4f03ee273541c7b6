"""A bias, an activation and an output type on a GPU: small products are checked on the CPU, others where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs.errors import OperandDamaged, VerificationFailed
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of
from kernels.model.activations import ACTIVATION_NAMES, ActivationName, error_bound
from kernels.model.numerics import DTypeName, Problem
from kernels.model.outputs import WIDENED, outputs_of
from tests.gpu.check.test_epilogue import LARGE, SMALL, as_stored, checked, problem_of, sent
from tests.gpu.products import choice
from tests.support.kernels.products import matrix, operands, stored
from worker.check.elements import as_float64
from worker.check.epilogue import wrong_elements
from worker.cpu.activations import activated
from worker.device.operands import HostOperand, WidenedOperand
from worker.device.runner import Epilogue, Product, gathered

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

FLOATS: tuple[DTypeName, ...] = ("float16", "bfloat16", "float32", "float64", "float8_e4m3")


@contextmanager
def made(
    runner: CudaRunner, problem: Problem, epilogue: Epilogue, given: tuple[HostOperand, HostOperand]
) -> Iterator[Product]:
    with runner.compute(problem, choice(runner, "cublas", problem), *given, epilogue=epilogue) as product:
        yield product


def pair(problem: Problem, rng: np.random.Generator) -> tuple[HostOperand, HostOperand]:
    a, b = operands(problem, rng)
    return sent(a), sent(b)


def outputs_after(dtype: DTypeName) -> list[DTypeName | None]:
    """That the pass gives; 16-bit operands of float32 products are widened before."""
    return [None] if dtype in WIDENED else [None, *outputs_of(dtype)[1:]]


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("activation", [None, *ACTIVATION_NAMES])
@pytest.mark.parametrize("dtype", FLOATS)
def test_both_checks_pass_it(
    runner: CudaRunner,
    dtype: DTypeName,
    activation: ActivationName | None,
    size: tuple[int, int, int],
    rng: np.random.Generator,
) -> None:
    """The device's own check, and the host's of what comes back; a bias for rows and columns; with and without C."""
    for output in outputs_after(dtype):
        for of_bias, beta in (((1, size[1]), 0.0), ((size[0], 1), -0.5)):
            problem = problem_of(size, dtype, 2)
            product_dtype = problem.product_dtype
            bias, c = (sent(matrix(shape, product_dtype, rng)) for shape in (of_bias, size[:2]))
            epilogue = Epilogue(0.5, beta, c if beta else None, bias, activation, output)
            with made(runner, problem, epilogue, pair(problem, rng)) as product:
                checked(runner, "cublas", problem, product, rng)
                data = gathered(product.chunks())
                assert digest_of(data) == product.digest
                p = as_stored(product.matrices.elementwise.c.elements, problem)
            d = np.frombuffer(data, STORAGE_DTYPES[output or product_dtype]).reshape(p.shape)
            added = c.elements[np.newaxis]
            assert wrong_elements(d, p, added, 0.5, beta, product_dtype, epilogue.after) == 0


@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
def test_the_device_s_functions_are_within_the_bound_that_is_granted(
    runner: CudaRunner, activation: ActivationName, rng: np.random.Generator
) -> None:
    """Of two million numbers, tails and all; the host's are held to mpmath by tests/unit."""
    count = 1 << 10
    x = np.concatenate([rng.uniform(-40, 10, count**2), rng.standard_normal(count**2) * 3]).reshape(2 * count, count)
    x[0, :9] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, -1e308, -745.0, -38.4]
    problem = Problem(2 * count, count, 1, "float64")
    zeros = sent(np.zeros((2 * count, 1))), sent(np.zeros((1, count)))
    with made(runner, problem, Epilogue(0.0, 1.0, sent(x), None, activation), zeros) as product:
        assert product.wrong_elements() == 0
        found = np.frombuffer(gathered(product.chunks())).reshape(x.shape)
    with np.errstate(all="ignore"):
        host = activated(activation, x)
        bound = 2 * error_bound(activation, x, host)
        off = np.abs(found - host)
    finite = np.isfinite(x)
    assert (off[finite] <= bound[finite]).all(), x[finite][off[finite] > bound[finite]][:5]
    np.testing.assert_array_equal(found[~finite], host[~finite])


def test_integers_have_a_bias(runner: CudaRunner, rng: np.random.Generator) -> None:
    for size in (SMALL, LARGE):
        problem = problem_of(size, "int8")
        bias = matrix((1, size[1]), "int32", rng)
        with made(runner, problem, Epilogue(3.0, 0.0, None, sent(bias)), pair(problem, rng)) as product:
            checked(runner, "cublas", problem, product, rng)
            p = as_stored(product.matrices.elementwise.c.elements, problem)
            d = np.frombuffer(gathered(product.chunks()), np.int32).reshape(p.shape)
        np.testing.assert_array_equal(d, (3 * p.astype(np.int64) + bias).astype(np.int32))


@pytest.mark.parametrize("dtype", WIDENED)
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_widened_operands_are_multiplied_as_they_are(
    runner: CudaRunner, dtype: DTypeName, size: tuple[int, int, int], rng: np.random.Generator
) -> None:
    problem = problem_of(size, "float32")
    a, b = operands(problem_of(size, dtype), rng)
    given = WidenedOperand(sent(a), dtype), WidenedOperand(sent(b), dtype)
    with made(runner, problem, Epilogue(1.0, 0.0, None, None, "relu"), given) as product:
        checked(runner, "cublas", problem, product, rng)
        d = np.frombuffer(gathered(product.chunks()), np.float32).reshape(size[:2])
    exact = as_float64(a, dtype) @ as_float64(b, dtype)
    np.testing.assert_allclose(d, np.maximum(exact, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("where", ["d", "bias", "no activation"])
def test_what_goes_wrong_is_found(
    runner: CudaRunner,
    size: tuple[int, int, int],
    where: str,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.gpu.test_damage import flip_on_device
    from worker.cuda.epilogue.on_device import EpilogueOnDevice

    launch = EpilogueOnDevice.launch

    def damaged(self: EpilogueOnDevice) -> None:
        if where == "bias":
            assert self.bias is not None
            flip_on_device(self.bias, 8)
        if where == "no activation":
            object.__setattr__(self, "activation", None)
        launch(self)
        object.__setattr__(self, "activation", "silu")
        if where == "d":
            flip_on_device(self.d, 8)

    monkeypatch.setattr(EpilogueOnDevice, "launch", damaged)
    problem = problem_of(size, "float32")
    bias = sent(stored(np.ones((1, size[1])), "float32"))
    with made(runner, problem, Epilogue(2.0, 0.0, None, bias, "silu"), pair(problem, rng)) as product:
        small_bias = where == "bias" and size == SMALL  # the host's check reads the bias that was sent
        error: Any = OperandDamaged if where == "bias" and not small_bias else VerificationFailed
        with pytest.raises(error):
            checked(runner, "cublas", problem, product, rng)


def elements_of(product: Product, shape: tuple[int, ...], dtype: DTypeName) -> Array:
    return np.frombuffer(gathered(product.chunks()), STORAGE_DTYPES[dtype]).reshape(shape)


def test_a_shorter_product_is_the_next_one_s_operand(runner: CudaRunner, rng: np.random.Generator) -> None:
    """Where it lies, with its own type."""
    problem = problem_of((600, 600, 600), "float32")
    with made(runner, problem, Epilogue(0.05, 0.0, None, None, "gelu", "float16"), pair(problem, rng)) as product:
        checked(runner, "cublas", problem, product, rng)
        hidden = elements_of(product, (600, 600), "float16")
        product.offer("c_" + "0" * 32 + "_1")
    runner.product_ended("c_" + "0" * 32 + "_1", awaited=True)
    kept = runner.cache.get("c_" + "0" * 32 + "_1")
    assert kept is not None and kept.copy.layout.dtype == "float16" and kept.digest == digest_of(hidden)
