"""`hopper_bf16` and `hopper_fp16` on the CPU under sanitizers: rings, what is multiplied while sums are stored, and
where they go in C. And `hopper_tf32` with both operands along k, whose sums are stored as they are. Matrix instructions
and bulk copies come as late as they may."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.kernel import CudaKernel
from kernels.numerics import DTypeName, Problem
from tests.emulation.boxed import Case, run_of
from tests.emulation.launches import execute
from tests.emulation.programs import Emulator
from tests.support.products import in_float64, operands, stored
from worker.sources import kernel_program

BFLOAT, HALF, TF32 = "hopper_bf16", "hopper_fp16", "hopper_tf32"
# Kernel, columns of a tile, stages, whether it stores late, and which operands are transposed.
VARIANTS = [
    (BFLOAT, 64, 3, 1, (False, False)),
    (BFLOAT, 192, 3, 1, (True, False)),
    (BFLOAT, 256, 4, 1, (False, True)),
    (HALF, 128, 3, 0, (True, True)),
    (TF32, 256, 4, 0, (False, True)),
]


def some_cases(columns: int, depth: int) -> Iterator[Case]:
    """No k, one step of it, two, and more than the ring has stages, over several tiles of a block; rows and columns
    that end inside a box, a half of a tile, and a tile; batches."""
    tile = (128, columns)
    for steps in (0, 1, 2, 4):
        yield Case(Problem(tile[0], 2 * tile[1], steps * depth, "float32"), 1)
    yield Case(Problem(1, 1, 1, "float32"), 2)
    yield Case(Problem(130, tile[1] + 9, 2 * depth + 3, "float32"), 1)
    yield Case(Problem(2 * tile[0] + 65, tile[1] - 30, 3 * depth, "float32"), 2)
    yield Case(Problem(17, 2 * tile[1] - 7, depth + 1, "float32", 3, b_batched=True), 2)
    yield Case(Problem(70, 33, 2 * depth, "float32", 5, a_batched=True, b_batched=True), 1)


def name_of(variant: tuple[str, int, int, int, tuple[bool, bool]]) -> str:
    kernel, columns, stages, late, (across_a, across_b) = variant
    return f"{kernel}-{columns}-{stages}-{late}-{across_a:d}{across_b:d}"


@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_products_to_the_last_bit(variant: tuple[str, int, int, int, tuple[bool, bool]], emulator: Emulator) -> None:
    name, columns, stages, late, (transpose_a, transpose_b) = variant
    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    dtype: DTypeName = kernel.dtypes[0]
    asked = {"block_n": columns, "stages": stages, "cluster": 1}
    config = kernel.resolve_config(asked if name == TF32 else {**asked, "late": late})
    problem = Problem(1, 1, 1, dtype, 1, transpose_a, transpose_b)
    compiled = emulator.compile(kernel_program(kernel, config, problem), kernel.name)
    rng = np.random.default_rng(11)
    depth = 32 if name == TF32 else 64
    cases = [
        replace(case, problem=replace(case.problem, dtype=dtype, transpose_a=transpose_a, transpose_b=transpose_b))
        for case in some_cases(columns, depth)
    ]
    pairs = [operands(case.problem, rng, "integers") for case in cases]
    runs = [
        run_of(kernel, config, case, pair, order) for order, (case, pair) in enumerate(zip(cases, pairs, strict=True))
    ]
    for case, pair, (found,) in zip(cases, pairs, execute(compiled, runs), strict=True):
        expected = stored(in_float64(case.problem, *pair)[0], case.problem.product_dtype)
        np.testing.assert_array_equal(found, expected.reshape(found.shape), err_msg=f"{config} {case}")
