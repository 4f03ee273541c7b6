"""alpha·A·B + beta·C and a bias in the Hopper kernels themselves: right in every element, by the check and by float64,
and what goes wrong is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of
from kernels.model.accuracy import element_bound
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName, Problem
from tests.gpu.check.fused import KERNELS, SIZES, assert_found, fused, spoil
from tests.gpu.check.test_epilogue import checked, problem_of, sent
from tests.gpu.products import choice
from tests.support.kernels.products import matrix, operands, stored
from worker.check.elements import as_float64
from worker.check.rounding import EPILOGUE_ROUNDINGS
from worker.device.operands import WidenedOperand
from worker.device.runner import Epilogue, gathered

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner


def bound_of(problem: Problem, sizes: tuple[Array, ...], accuracy: AccuracyName, output: DTypeName) -> Array:
    """Of every element: the class's for the sums, the epilogue's roundings of all terms, and D's own."""
    size, terms, true = sizes
    own = element_bound(accuracy, problem.dtype, problem.k)
    off = own.sum * size + EPILOGUE_ROUNDINGS * 2.0**-24 * terms + 8 * own.operand * size
    return off + DTYPES[output].unit_roundoff * (np.abs(true) + off) + 2.0**-24


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("kernel", "dtype"), KERNELS)
@pytest.mark.parametrize(("beta", "of_bias"), [(-0.75, "columns"), (0.0, "rows"), (2.0, None), (0.0, None)])
def test_every_element_is_right_and_the_check_passes(
    runner: CudaRunner,
    kernel: str,
    dtype: DTypeName,
    size: tuple[int, int, int],
    beta: float,
    of_bias: str | None,
    rng: np.random.Generator,
) -> None:
    problem, alpha = problem_of(size, dtype, 2), 0.3
    a, b = operands(problem, rng)
    c = matrix(size[:2], dtype, rng)
    bias = None if of_bias is None else matrix((1, size[1]) if of_bias == "columns" else (size[0], 1), dtype, rng)
    addends = sent(c) if beta else None, None if bias is None else sent(bias)
    epilogue = Epilogue(alpha, beta, *addends, may_fuse=True)
    with fused(runner, kernel, problem, (sent(a), sent(b)), epilogue) as product:
        checked(runner, kernel, problem, product, rng)
        data = gathered(product.chunks())
        assert digest_of(data) == product.digest
    d = as_float64(np.frombuffer(data, STORAGE_DTYPES[dtype]).reshape(2, *size[:2]), dtype)
    of_a, of_b = as_float64(a, dtype), as_float64(b, dtype)
    true, terms = alpha * (of_a @ of_b), alpha * (np.abs(of_a) @ np.abs(of_b))
    added = [beta * as_float64(c, dtype)] * bool(beta) + ([] if bias is None else [as_float64(bias, dtype)])
    product_terms = terms
    for each in added:
        true, terms = true + each, terms + np.abs(each)
    accuracy: AccuracyName = "tf32" if dtype == "float32" else DTYPES[dtype].accuracy
    bound = bound_of(problem, (product_terms, terms, true), accuracy, dtype)
    assert (np.abs(d - true) <= bound).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("has_more", [False, True])
def test_float32_sums_of_operands_of_16_bits(
    runner: CudaRunner, dtype: DTypeName, has_more: bool, rng: np.random.Generator
) -> None:
    """As they are stored, and as precise as sums in float32 are."""
    for size in SIZES:
        problem = problem_of(size, "float32")
        a, b = operands(problem_of(size, dtype), rng)
        bias = matrix((1, size[1]), "float32", rng)
        given = WidenedOperand(sent(a), dtype, is_free=True), WidenedOperand(sent(b), dtype, is_free=True)
        epilogue = Epilogue(2.0, 0.0, None, sent(bias), may_fuse=True) if has_more else None
        with fused(runner, "cublas_tf32", problem, given, epilogue) as product:
            checked(runner, "cublas_tf32", problem, product, rng)
            d = np.frombuffer(gathered(product.chunks()), np.float32).reshape(size[:2])
        of_a, of_b = as_float64(a, dtype), as_float64(b, dtype)
        true = (2.0 * (of_a @ of_b) + bias) if has_more else of_a @ of_b
        granted = 2 * (np.abs(of_a) @ np.abs(of_b)) + np.abs(bias)
        assert (np.abs(d - true) <= 16 * np.sqrt(size[2]) * 2.0**-24 * granted).all()


@pytest.mark.parametrize("where", ["row of d", "bias", "c", "no c", "alpha", "element of d"])
@pytest.mark.parametrize(("kernel", "dtype"), KERNELS)
def test_what_goes_wrong_is_found(
    runner: CudaRunner,
    kernel: str,
    dtype: DTypeName,
    where: str,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoil(monkeypatch, where)
    assert_found(runner, kernel, dtype, where, None, rng)


def test_what_is_not_finite_and_columns_that_are_tiny(runner: CudaRunner, rng: np.random.Generator) -> None:
    """NaN in C, infinity in A, a column of B far below its bias; an element beyond float16."""
    size: tuple[int, int, int] = SIZES[0]
    problem = problem_of(size, "float16")
    a, b = operands(problem, rng)
    c, bias = matrix(size[:2], "float16", rng), matrix((1, size[1]), "float16", rng)
    c[3, 4] = stored(np.array(np.nan), "float16")
    a[9, 1] = stored(np.array(np.inf), "float16")
    b[:, 11] = stored(np.full(size[2], 2.0**-20), "float16")
    bias[0, 20] = c[30, 20] = stored(np.array(60000.0), "float16")
    epilogue = Epilogue(1.0, 1.0, sent(c), sent(bias), may_fuse=True)
    with fused(runner, "hopper_fp16", problem, (sent(a), sent(b)), epilogue) as product:
        checked(runner, "hopper_fp16", problem, product, rng)
        d = as_float64(np.frombuffer(gathered(product.chunks()), np.float16).reshape(size[:2]), "float16")
    assert np.isnan(d[3, 4]) and np.isposinf(d[30, 20]) and not np.isfinite(d[9]).any()


def test_one_that_is_not_compiled_is_left_to_the_pass_for_now(
    runner: CudaRunner, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    from worker.cuda.epilogue.fused import FusedKernels

    compiled: list[object] = []
    monkeypatch.setattr(type(runner.compiler), "has", lambda _self, _program: False)
    monkeypatch.setattr(FusedKernels, "_compile", lambda _self, programs: compiled.extend(programs))
    problem = problem_of(SIZES[0], "bfloat16")
    a, b = operands(problem, rng)
    epilogue = Epilogue(0.5, 0.0, None, sent(matrix((1, SIZES[0][1]), "bfloat16", rng)), may_fuse=True)
    chosen = choice(runner, "hopper_bf16", problem)
    with runner.compute(problem, chosen, sent(a), sent(b), epilogue=epilogue) as product:
        assert product.made_by is None
        checked(runner, "hopper_bf16", problem, product, rng)
    assert compiled
