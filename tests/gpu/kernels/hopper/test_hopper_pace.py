"""Long products, of which clusters are kept in step: the same bits as without that, right by the check and beside
cuBLAS, also where several launches share the device, and where one is repeated by a CUDA graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.benchmarks.spec import DataSpec
from kernels.catalog import BY_NAME
from kernels.entries.hopper.waves import COUNTER
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from tests.gpu.kernels.hopper.launching import check_graph, check_launches_at_once, computed, drawn, prepared
from worker.check.verify import check

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

HALF: list[tuple[str, DTypeName]] = [("hopper_bf16", "bfloat16"), ("hopper_fp16", "float16")]
OTHERS: list[tuple[str, DTypeName]] = [
    ("hopper_tf32", "float32"),
    ("hopper_int8", "int8"),
    ("hopper_fp8", "float8_e4m3"),
]
EACH = pytest.mark.parametrize(("name", "dtype"), [*HALF, *OTHERS])
EACH_HALF = pytest.mark.parametrize(("name", "dtype"), HALF)
M, N, K = 5_000, 4_112, 17_040  # several waves, of which the last is not full, with thin tiles; an odd end of k
STREAMS, LAUNCHES = 4, 3
LIBRARY = {"float32": "cublas_tf32"}


def in_step(kernel: CudaKernel) -> CudaKernel:
    return replace(kernel, workspace=lambda *_: COUNTER)


def apart(kernel: CudaKernel) -> CudaKernel:
    return replace(kernel, workspace=None)


@EACH
@pytest.mark.parametrize("transpose_b", [False, True])
def test_the_bits_do_not_depend_on_the_pace(
    runner: CudaRunner, rng: np.random.Generator, name: str, dtype: DTypeName, transpose_b: bool
) -> None:
    from worker.cuda.bench.operands import as_float64, as_operands
    from worker.cuda.library.cublas import Cublas

    problem = Problem(M, N, K, dtype, transpose_b=transpose_b)
    at, cublas = drawn(runner, problem, DataSpec()), Cublas(runner.compiler)
    plain, paced = (prepared(runner, name, problem, change) for change in (apart, in_step))
    expected = computed(plain, at)
    library = computed(lambda _: cublas.multiply(LIBRARY.get(dtype, "cublas"), problem, at.a, at.b, at.c), at)
    for _ in range(LAUNCHES):
        found = computed(paced, at)
        assert (found == expected).all()
    assert check(problem, BY_NAME[name].accuracy[dtype], as_operands(runner.compiler, problem, at), rng).passed
    ours, theirs = (as_float64(each, problem.product_dtype) for each in (found, library))
    assert abs(ours - theirs).max() <= 2**-7 * abs(theirs).max()  # both may be rounded to 16 bits


@EACH_HALF
def test_launches_at_once(runner: CudaRunner, name: str, dtype: DTypeName) -> None:
    """Their blocks take multiprocessors from each other: no launch has all of its clusters resident at once."""
    problem = Problem(M, N, K, dtype)
    plain, paced = (prepared(runner, name, problem, change) for change in (apart, in_step))
    sets = [drawn(runner, problem, DataSpec(seed=seed)) for seed in range(STREAMS)]
    check_launches_at_once(paced, sets, [computed(plain, at) for at in sets], LAUNCHES)


@EACH_HALF
def test_a_graph_of_launches(runner: CudaRunner, name: str, dtype: DTypeName) -> None:
    """The counter starts as zero in each launch of each replay: clusters wait for each other in all of them."""
    problem = Problem(M, N, K, dtype)
    check_graph(prepared(runner, name, problem, in_step), drawn(runner, problem, DataSpec()), LAUNCHES)
