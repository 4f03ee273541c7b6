"""cuBLAS at its best on a real GPU: whichever way is taken, and however sizes are padded, the product is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.model.numerics import ACCURACY_UNIT_ROUNDOFF, DTypeName, Problem
from tests.gpu.products import choice, multiply
from tests.support.kernels.products import in_float64, operands
from worker.check.elements import as_float64
from worker.device.operands import HostOperand

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

KINDS: list[tuple[str, DTypeName]] = [
    *(("cublas_tuned", dtype) for dtype in BY_NAME["cublas_tuned"].dtypes),
    ("cublas_tf32_tuned", "float32"),
]
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
SHAPES = [
    (1, 1, 1), (31, 33, 32), (255, 257, 256), (257, 255, 259), (1, 1000, 777), (1000, 1, 777), (64, 65, 0), (0, 5, 3),
    (513, 514, 515), (1023, 1025, 1024), (300, 2049, 4097),
]  # fmt: skip


def is_within(name: str, problem: Problem, rng: np.random.Generator, runner: CudaRunner, pad: int) -> bool:
    """Each element within what rounding the operands, sums in float32 or float64 in any order, and one rounding at the
    end may come to."""
    a, b = operands(problem, rng)
    c, check, _ = multiply(runner, name, problem, a, b, rng, config={"pad": pad})
    true, plain = in_float64(problem, a, b)
    if problem.dtype == "int8":
        return bool(check.passed and (as_float64(c, "int32") == true).all())
    unit = ACCURACY_UNIT_ROUNDOFF[BY_NAME[name].accuracy[problem.dtype]]
    summed = 2 * problem.k * (2.0**-53 if problem.dtype == "float64" else 2.0**-24)
    within = np.abs(as_float64(c, problem.dtype) - true) <= (2.1 * unit + summed) * plain + 1e-30
    return bool(check.passed and within.all())


@pytest.mark.parametrize(("name", "dtype"), KINDS)
@pytest.mark.parametrize("pad", [1, 64])
def test_any_shape(runner: CudaRunner, name: str, dtype: DTypeName, pad: int, rng: np.random.Generator) -> None:
    for m, n, k in SHAPES:
        for transposes in TRANSPOSES:
            assert is_within(name, Problem(m, n, k, dtype, 1, *transposes), rng, runner, pad), (m, n, k, transposes)


@pytest.mark.parametrize(("name", "dtype"), KINDS)
@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_batches(
    runner: CudaRunner, name: str, dtype: DTypeName, batched: tuple[bool, bool], rng: np.random.Generator
) -> None:
    for batch, m, n, k in ((3, 33, 17, 29), (2, 300, 299, 301)):
        assert is_within(name, Problem(m, n, k, dtype, batch, False, False, *batched), rng, runner, 64)


@pytest.mark.parametrize("size", [300, 1027])
def test_what_pads_a_product_with_infinities_spoils_no_later_one(
    runner: CudaRunner, size: int, rng: np.random.Generator
) -> None:
    """Zeros that pad A meet B's infinities: the rows below the product are NaN, and it is the next one's operand."""
    problem = Problem(size, size, size, "float32")
    a, b = operands(problem, rng)
    b[5, 7] = np.inf
    a[:, 5] = np.abs(a[:, 5]) + 1
    first, check, _ = multiply(runner, "cublas_tuned", problem, a, b, rng, ids=(f"a{size}", f"b{size}"))
    assert check.passed and np.isposinf(first[:, 7]).all() and np.isfinite(np.delete(first, 7, axis=1)).all()
    hosts = HostOperand(a, None), HostOperand(b, None)
    with runner.compute(problem, choice(runner, "cublas_tuned", problem), *hosts) as product:
        matrix: Any = vars(product)["_delivered"]
    rows, columns = matrix.layout.padded(64)
    assert rows > size and columns > size
    whole = elements_with_padding(matrix)
    assert not whole[size:rows, :columns].any() and not whole[:size, size:columns].any()


def elements_with_padding(matrix: Any) -> Array:
    import cupy

    stored: Array = cupy.asnumpy(cupy.ndarray((matrix.layout.kept_rows, matrix.layout.pitch), "f4", matrix.memory))
    return stored


def test_padding_is_what_makes_odd_sizes_fast(runner: CudaRunner, rng: np.random.Generator) -> None:
    """By far, on Hopper: which is how it is seen that it is used."""
    if runner.device.traits.compute_capability < (9, 0):
        pytest.skip("the difference is Hopper's")
    problem = Problem(4097, 4097, 4097, "bfloat16")
    a, b = operands(problem, rng)
    ms = {
        pad: multiply(runner, "cublas_tuned", problem, a, b, rng, config={"pad": pad})[2].kernel_ms for pad in (1, 64)
    }
    print(ms)
    assert 2 * (ms[64] or 0.0) < (ms[1] or 0.0)


def test_a_shape_is_tried_once_and_ahead_of_its_first_job(runner: CudaRunner) -> None:
    problem = Problem(777, 779, 781, "float16")
    wanted = choice(runner, "cublas_tuned", problem)
    assert not runner.is_compiled(wanted, problem)
    runner.make_ready(wanted, problem)
    assert runner.is_compiled(wanted, problem)
