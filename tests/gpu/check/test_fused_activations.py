"""Activations in the Hopper kernels themselves: right in every element, by the check and by the host's, and what goes
wrong is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.errors import VerificationFailed
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of
from kernels.model.accuracy import element_bound
from kernels.model.activations import ACTIVATION_NAMES, FLOAT32, ActivationName
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName
from tests.gpu.check.fused import KERNELS, SIZES, assert_found, fused, spoil
from tests.gpu.check.test_epilogue import checked, problem_of, sent
from tests.support.kernels.products import matrix, operands
from worker.check.activations import interval
from worker.check.elements import as_float64
from worker.check.epilogue import After, wrong_elements
from worker.check.rounding import EPILOGUE_ROUNDINGS
from worker.cpu.activations import activated
from worker.device.operands import WidenedOperand
from worker.device.runner import Epilogue, Product, gathered

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

STEEPEST = 1.2  # no activation is steeper
FAULTS = ["row of d", "bit of d", "row of both", "element of both", "activation", "bias", "c", "alpha"]


def delivered(product: Product, shape: tuple[int, ...], dtype: DTypeName) -> Array:
    data = gathered(product.chunks())
    assert digest_of(data) == product.digest
    return np.frombuffer(data, STORAGE_DTYPES[dtype]).reshape(shape)


@pytest.mark.parametrize("size", SIZES[::2], ids=str)
@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
@pytest.mark.parametrize(("kernel", "dtype"), KERNELS)
def test_every_element_is_right_and_the_check_passes(
    runner: CudaRunner,
    kernel: str,
    dtype: DTypeName,
    activation: ActivationName,
    size: tuple[int, int, int],
    rng: np.random.Generator,
) -> None:
    """With a bias for columns or C and one for rows, in a batch of two."""
    problem, alpha = problem_of(size, dtype, 2), 0.05
    a, b = operands(problem, rng)
    c = matrix(size[:2], dtype, rng)
    for beta, of_bias in ((0.0, (1, size[1])), (-0.75, (size[0], 1))):
        bias = matrix(of_bias, dtype, rng)
        epilogue = Epilogue(alpha, beta, sent(c) if beta else None, sent(bias), activation, may_fuse=True)
        with fused(runner, kernel, problem, (sent(a), sent(b)), epilogue) as product:
            assert product.made_by is not None and product.made_by.why.endswith(f", and {activation} of them.")
            checked(runner, kernel, problem, product, rng)
            d = as_float64(delivered(product, (2, *size[:2]), dtype), dtype)
        of_a, of_b = as_float64(a, dtype), as_float64(b, dtype)
        terms = [alpha * (of_a @ of_b), beta * as_float64(c, dtype), as_float64(bias, dtype)]
        sizes = [alpha * (np.abs(of_a) @ np.abs(of_b)), *map(np.abs, terms[1:])]
        z = sum(terms[1:], terms[0])
        accuracy: AccuracyName = "tf32" if dtype == "float32" else DTYPES[dtype].accuracy
        own, unit = element_bound(accuracy, dtype, size[2]), DTYPES[dtype].unit_roundoff
        off = own.sum * sizes[0] + EPILOGUE_ROUNDINGS * 2.0**-24 * sum(sizes[1:], sizes[0]) + 8 * own.operand * sizes[0]
        off += unit * (np.abs(z) + off) + 2.0**-24
        true = activated(activation, z)
        bound = STEEPEST * off + (unit + 2.0**-20) * (np.abs(true) + STEEPEST * off) + 2.0**-24
        assert (np.abs(d - true) <= bound).all()


@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
def test_the_kernel_s_functions_are_within_the_bound_that_is_granted(
    runner: CudaRunner, activation: ActivationName, rng: np.random.Generator
) -> None:
    """Of two million numbers, tails and all: A·B is zero, so Z is C."""
    rows, columns = 2048, 1024
    x = np.concatenate([rng.uniform(-120, 20, rows * 512), rng.standard_normal(rows * 512) * 3])
    x = x.astype(np.float32).reshape(rows, columns)
    x[0, :9] = [0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, -256.5, -103.5]
    x[1, :800] = np.float32(2.0) ** np.linspace(-149, 120, 800)
    x[2, :800] = -x[1, :800]
    problem = problem_of((rows, columns, 256), "float32")
    zeros = sent(np.zeros((rows, 256), np.float32)), sent(np.zeros((256, columns), np.float32))
    epilogue = Epilogue(1.0, 1.0, sent(x), None, activation, may_fuse=True)
    with fused(runner, "hopper_tf32", problem, zeros, epilogue) as product:
        assert product.wrong_elements() == 0
        d = delivered(product, x.shape, "float32")
    after = After(activation=activation, arithmetic=FLOAT32)
    assert wrong_elements(d[np.newaxis], x[np.newaxis], None, 1.0, 0.0, "float32", after) == 0
    lowest, highest = interval(activation, x.astype(np.float64), FLOAT32)
    small = np.abs(x) < 1
    assert (highest[small] - lowest[small] < 2.0**-18).all()  # or it would say little


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_float32_of_operands_of_16_bits(runner: CudaRunner, dtype: DTypeName, rng: np.random.Generator) -> None:
    size = SIZES[0]
    problem = problem_of(size, "float32")
    a, b = operands(problem_of(size, dtype), rng)
    given = WidenedOperand(sent(a), dtype, is_free=True), WidenedOperand(sent(b), dtype, is_free=True)
    epilogue = Epilogue(0.1, 0.0, None, None, "silu", may_fuse=True)
    with fused(runner, "cublas_tf32", problem, given, epilogue) as product:
        checked(runner, "cublas_tf32", problem, product, rng)
        d = delivered(product, size[:2], "float32")
    z = 0.1 * (as_float64(a, dtype) @ as_float64(b, dtype))
    np.testing.assert_allclose(d, activated("silu", z), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("where", FAULTS)
@pytest.mark.parametrize(("kernel", "dtype"), KERNELS)
def test_what_goes_wrong_is_found(
    runner: CudaRunner,
    kernel: str,
    dtype: DTypeName,
    where: str,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One flipped bit of an element of D is found, and every fault of the sums that is found without an activation.
    relu does not change a positive element, so a fault of both D and its sums must be found in the sums."""
    spoil(monkeypatch, where)
    assert_found(runner, kernel, dtype, where, "relu", rng)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize(("kernel", "dtype"), KERNELS)
def test_the_last_bit_of_16_is_found_and_few_units_of_float32(
    runner: CudaRunner,
    kernel: str,
    dtype: DTypeName,
    activation: ActivationName,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One bit of every element of a row is flipped. Nearly all are found; for a few the bound reaches the next
    number."""
    spoil(monkeypatch, "bits of a row of d", bit=6 if dtype == "float32" else 0)
    size = SIZES[0]
    problem = problem_of(size, dtype)
    a, b = operands(problem, rng)
    epilogue = Epilogue(0.01, 0.0, None, sent(matrix((1, size[1]), dtype, rng)), activation, may_fuse=True)
    refused = pytest.raises(VerificationFailed)
    with fused(runner, kernel, problem, (sent(a), sent(b)), epilogue) as product, refused:
        assert product.wrong_elements() >= 0.9 * size[1]
        checked(runner, kernel, problem, product, rng)
