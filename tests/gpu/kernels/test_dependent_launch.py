"""A kernel that begins while the launch before it ends reads nothing that is not written yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.numerics import DTypeName, Problem
from tests.gpu.products import multiply
from tests.support.kernels.products import in_float64, operands

if TYPE_CHECKING:
    from worker.cuda.memory import DeviceMatrix
    from worker.cuda.runner import CudaRunner

LATE_NS = 200_000
# One block, so that all other multiprocessors are free for who follows.
LATE = f"""
extern "C" __global__ void late(const int4* from, int4* to, long long count) {{
    asm volatile("griddepcontrol.launch_dependents;");
    long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < {LATE_NS});
    for (long long i = threadIdx.x; i < count; i += blockDim.x)
        to[i] = from[i];
}}
"""
# Kernels that have an operand transposed before: A, or B where sums are promoted.
TRANSPOSED: list[tuple[str, DTypeName, bool, TileConfig]] = [
    ("hopper_fp32", "float32", False, NO_CONFIG),
    ("hopper_tf32", "float32", True, NO_CONFIG),
    ("hopper_fp64", "float64", True, NO_CONFIG),
    ("hopper_int8", "int8", True, NO_CONFIG),
    ("hopper_fp8", "float8_e4m3", False, {"promote": 1}),
]


@pytest.mark.parametrize(("name", "dtype", "transpose_a", "config"), TRANSPOSED, ids=[name for name, *_ in TRANSPOSED])
def test_a_kernel_waits_for_the_transposition_before_it(
    runner: CudaRunner,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    dtype: DTypeName,
    transpose_a: bool,
    config: TileConfig,
) -> None:
    """Of 1,025 rows, so that thin tiles are fed too. The transposed operand is put in its place late."""
    import cupy

    from tests.gpu.poisoned import POISON
    from worker.cuda import bound_kernel
    from worker.cuda.bound_kernel import move
    from worker.cuda.memory import allocate

    late = cupy.RawKernel(LATE, "late", options=("-arch=sm_90",))
    asides: list[DeviceMatrix] = []

    def move_late(call: Any, matrix: DeviceMatrix, to: DeviceMatrix, stream: int, gate: int | None) -> None:
        aside = asides[0] if asides else allocate(to.layout)
        to.memory.memset_async(POISON, to.layout.bytes)
        move(call, matrix, aside, stream, gate)
        late((1,), (1024,), (aside.memory, to.memory, np.int64(to.layout.bytes // 16)))
        asides.append(aside)

    monkeypatch.setattr(bound_kernel, "move", move_late)
    problem = Problem(1025, 512, 768, dtype, 1, transpose_a)
    a, b = operands(problem, rng, "integers")
    for _ in range(3):  # at first modules are loaded and memory is allocated, for which the driver waits
        c, check, _ = multiply(runner, name, problem, a, b, rng, config=config)
        np.testing.assert_array_equal(c, in_float64(problem, a, b)[0])
        assert check.passed
    assert len(asides) == 3
