"""Threads that come late to a ring of stages, on the CPU: one thread goes on only where no other can. Whoever counts it
in must wait for it, or the ring goes round without it, and it waits for a phase that has long passed.

Blocks with rows below C have warps that multiply nothing, which no matrix instruction keeps together.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.emulation.boxed import Case, run_of
from tests.emulation.launches import execute
from tests.emulation.programs import Emulator
from tests.support.kernels.products import in_float64, operands, stored
from worker.cuda.sources import kernel_program

# Of the warps that multiply, of those below C and of the producer: their first threads and others.
LATE = (0, 33, 96, 127, 128, 129, 160, 255, 256, 300)
SMALL: TileConfig = {"block_n": 64, "stages": 3, "cluster": 1}
# With the operands as each takes them: which of them is transposed.
KERNELS: list[tuple[str, DTypeName, TileConfig, tuple[bool, bool]]] = [
    ("hopper_bf16", "bfloat16", SMALL, (False, True)),
    ("hopper_tf32", "float32", SMALL, (False, False)),
    ("hopper_int8", "int8", SMALL, (False, True)),
    ("hopper_fp8", "float8_e4m3", SMALL, (False, True)),
    ("hopper_fp64", "float64", {"block_m": 64}, (False, False)),
    ("hopper_fp32", "float32", {}, (True, False)),
]


@pytest.mark.parametrize(("name", "dtype", "asked", "transposes"), KERNELS, ids=[each[0] for each in KERNELS])
def test_a_late_thread_finds_its_stages(
    name: str, dtype: DTypeName, asked: TileConfig, transposes: tuple[bool, bool], emulator: Emulator
) -> None:
    """Stages of two products go round the ring several times."""
    kernel, rng = BY_NAME[name], np.random.default_rng(3)
    assert isinstance(kernel, CudaKernel)
    config = kernel.resolve_config(asked)
    k = 9 * 128 // DTYPES[dtype].itemsize
    case = Case(Problem(40, 40, k, dtype, 2, *transposes, a_batched=True, b_batched=True), 1)
    compiled = emulator.compile(kernel_program(kernel, config, case.problem), name)
    pair = operands(case.problem, rng, "integers")
    threads = kernel.plan(case.problem, config).main.block[0]
    runs = [replace(run_of(kernel, config, case, pair, 0), late=late, label=late) for late in LATE if late < threads]
    expected = stored(in_float64(case.problem, *pair)[0], case.problem.product_dtype)
    for found in execute(compiled, runs):
        np.testing.assert_array_equal(found[0].reshape(expected.shape), expected)
