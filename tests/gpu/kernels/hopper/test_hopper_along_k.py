"""What `hopper_int8` and `hopper_tf32` have of their own: transposition, wrapping sums, rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.numerics import DTypeName, Problem
from tests.gpu.products import multiply
from tests.support.kernels.products import Data, exact, in_float64, matrix, operands

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
LOWER_BITS = np.uint32(13)  # of float32, which TF32 has not


@pytest.mark.parametrize("dtype", ["int8", "float16", "bfloat16", "float32"])
def test_the_transposing_copy(runner: CudaRunner, dtype: DTypeName, rng: np.random.Generator) -> None:
    """Chunks of 16 bytes in both matrices, in one, in none; more tiles than fit on the device at once; a batch."""
    from worker.cuda.memory import Staging, StopWatch, allocate, upload
    from worker.cuda.pitch import operand_layout
    from worker.cuda.transpose import transpose, transpose_function, transposed_layout
    from worker.device.runner import gathered

    function = transpose_function(runner.compiler, dtype)
    for shape in ((1, 1), (256, 512), (1000, 3001), (4097, 4095), (31, 17), (17, 40), (3, 129, 257), (70_000, 5, 3)):
        elements = matrix(shape, dtype, rng)
        on_device = allocate(operand_layout(dtype, shape))
        upload(elements, on_device)
        transposed = allocate(transposed_layout(on_device.layout, in_groups=dtype == "int8"))
        transpose(function, on_device, transposed)
        given = gathered(Staging().download(transposed, StopWatch()))
        found = np.frombuffer(given, STORAGE_DTYPES[dtype]).reshape(*shape[:-2], shape[-1], shape[-2])
        np.testing.assert_array_equal(found, elements.swapaxes(-1, -2), err_msg=str(shape))


@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_bytes_of_their_whole_range(
    runner: CudaRunner, transposes: tuple[bool, bool], rng: np.random.Generator
) -> None:
    for m, n, k in ((129, 257, 127), (640, 500, 1000), (63, 1, 4096)):
        problem = Problem(m, n, k, "int8", 1, *transposes)
        a, b = operands(problem, rng)
        c, check, _ = multiply(runner, "hopper_int8", problem, a, b, rng)
        np.testing.assert_array_equal(c, exact(problem, a, b), err_msg=str(problem))
        assert check.passed


def test_sums_of_bytes_wrap(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = Problem(130, 70, 140_000, "int8")
    a, b = np.full((130, 140_000), -128, np.int8), np.full((140_000, 70), -128, np.int8)
    c, check, _ = multiply(runner, "hopper_int8", problem, a, b, rng)
    assert 128 * 128 * 140_000 > 2**31
    assert np.all(c == (128 * 128 * 140_000 + 2**31) % 2**32 - 2**31)
    assert check.passed


def nearest(values: Array) -> tuple[Array, Array]:
    """Of float32: the TF32 number nearest to each, ties to the smaller magnitude and to the larger."""
    bits = values.view(np.uint32)
    half = np.uint32(1) << (LOWER_BITS - np.uint32(1))
    kept = ~((np.uint32(1) << LOWER_BITS) - np.uint32(1))
    return ((bits + (half - np.uint32(1))) & kept).view(np.float32), ((bits + half) & kept).view(np.float32)


@pytest.mark.parametrize("transposed", [False, True])
def test_operands_are_rounded_to_nearest(runner: CudaRunner, transposed: bool, rng: np.random.Generator) -> None:
    """A product with the identity is the other operand, as the tensor cores saw it. Cut elements would be up to twice
    as far off, and all of them towards zero."""
    values, one = rng.standard_normal((256, 256)).astype(np.float32), np.eye(256, dtype=np.float32)
    problem = Problem(256, 256, 256, "float32", 1, transposed, transposed)
    given = np.ascontiguousarray(values.T) if transposed else values
    for a, b in ((given, one), (one, given)):
        c, _, _ = multiply(runner, "hopper_tf32", problem, a, b, rng)
        lower, upper = nearest(values)
        assert np.all((c == lower) | (c == upper))


@pytest.mark.parametrize("data", ["normal", "uniform", "wide"])
@pytest.mark.parametrize("size", [1024, 2048])
def test_the_error_is_no_greater_than_the_library_s(
    runner: CudaRunner, data: Data, size: int, rng: np.random.Generator
) -> None:
    """At sizes where the library sums k in one go too: at 2,049 it sums parts, and is a third less off on numbers of
    one sign."""
    problem = Problem(size, size, size, "float32")
    a, b = operands(problem, rng, data)
    true, _ = in_float64(problem, a, b)
    errors = {}
    for name in ("hopper_tf32", "cublas_tf32"):
        c, check, _ = multiply(runner, name, problem, a, b, rng)
        assert check.passed, (name, check)
        errors[name] = float(np.linalg.norm(c - true) / np.linalg.norm(true))
    print(errors)
    assert errors["hopper_tf32"] <= 1.01 * errors["cublas_tf32"]
