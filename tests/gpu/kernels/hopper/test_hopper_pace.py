"""Long products, of which clusters are kept in step: the same bits as without that, right by the check and beside
cuBLAS, also where several launches share the device, and where one is repeated by a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs.benchmarks.spec import DataSpec
from kernels.catalog import BY_NAME
from kernels.entries.hopper_waves import COUNTER
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from worker.check.verify import check

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet
    from worker.cuda.runner import CudaRunner

Put = Callable[["OperandSet"], object]  # puts a product on the current stream
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


def prepared(runner: CudaRunner, name: str, problem: Problem, *, is_paced: bool = True) -> Put:
    """A way to launch it, in the config that is taken; skips on a device without these instructions."""
    from worker.cuda.launch import prepare

    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    if (reason := kernel.unsupported_because(runner.device.traits)) is not None:
        pytest.skip(reason)
    config = kernel.resolve_config(NO_CONFIG, problem, runner.device.traits)
    counter = (lambda *_: COUNTER) if is_paced else None
    made = prepare(runner.compiler, replace(kernel, workspace=counter), config, problem)
    return lambda at: made.launch(at.a, at.b, at.c)


def operands(runner: CudaRunner, problem: Problem, seed: int = 0) -> OperandSet:
    from worker.cuda.bench.operands import random_set

    return random_set(runner.compiler, problem, DataSpec(seed=seed))


def computed(put: Put, at: OperandSet) -> Any:
    """The product's bits, on the device."""
    import cupy

    from worker.cuda.bench.operands import view

    at.poison()
    put(at)
    found = view(at.c).copy()
    cupy.cuda.get_current_stream().synchronize()
    return found


@EACH
@pytest.mark.parametrize("transpose_b", [False, True])
def test_the_bits_do_not_depend_on_the_pace(
    runner: CudaRunner, rng: np.random.Generator, name: str, dtype: DTypeName, transpose_b: bool
) -> None:
    from worker.cuda.bench.operands import as_float64, as_operands
    from worker.cuda.library.cublas import Cublas

    problem = Problem(M, N, K, dtype, transpose_b=transpose_b)
    at, cublas = operands(runner, problem), Cublas(runner.compiler)
    plain, paced = (prepared(runner, name, problem, is_paced=is_paced) for is_paced in (False, True))
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
    import cupy

    from worker.cuda.bench.operands import view

    problem = Problem(M, N, K, dtype)
    plain, paced = (prepared(runner, name, problem, is_paced=is_paced) for is_paced in (False, True))
    sets = [operands(runner, problem, seed) for seed in range(STREAMS)]
    expected = [computed(plain, at) for at in sets]
    for at in sets:
        at.poison()
    cupy.cuda.Device().synchronize()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in sets]
    for _ in range(LAUNCHES):
        for stream, at in zip(streams, sets, strict=True):
            with stream:
                paced(at)
    for stream in streams:
        stream.synchronize()
    for at, bits in zip(sets, expected, strict=True):
        assert (view(at.c) == bits).all()


@EACH_HALF
def test_a_graph_of_launches(runner: CudaRunner, name: str, dtype: DTypeName) -> None:
    """The counter starts as zero in each launch of each replay: clusters wait for each other in all of them."""
    import cupy

    problem = Problem(M, N, K, dtype)
    paced, at, stream = prepared(runner, name, problem), operands(runner, problem), cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        expected = computed(paced, at)  # from now on there is room for the counter
        stream.begin_capture()
        for _ in range(LAUNCHES):
            paced(at)
        graph = stream.end_capture()
        for _ in range(LAUNCHES):
            assert (computed(lambda _: graph.launch(stream), at) == expected).all()
