"""Measures products of 8-bit floats with block scales on a GPU: `hopper_fp8`, as float32 and as bfloat16, cublasLt's
own such product, and `hopper_fp8` without scales.

    python -m benchmarks.measure.interleaved.block_scales --out benchmarks/results/h100_block_scales.json

Times are medians of alternating samples with a cold cache; launches are queued before they are timed. B is contiguous
along k.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure.interleaved.launches import compile_all, job_config
from benchmarks.measure.interleaved.timing import Launch, cuda_kernel, record, rounded, sampler_of, times_ms
from jobs.benchmarks.spec import DataSpec
from jobs.settings import Settings
from kernels.catalog import BY_NAME
from kernels.model.fused import FusedEpilogue
from kernels.model.numerics import DTypeName, Problem
from kernels.model.scales import SCALE_WIDTHS, block_of, scale_shape
from worker.device.operands import HostOperand
from worker.device.scaled import ScaledOperand

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet
    from worker.cuda.library.cublas import Cublas
    from worker.cuda.runner import CudaRunner

# Squares, and layers of a large model (DeepGEMM's own list).
SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192), (4096, 7168, 2048), (4096, 2112, 7168), (4096, 24576, 1536))
SAMPLES = 11
DTYPE: DTypeName = "float8_e4m3"
NARROW: DTypeName = "bfloat16"
OURS, LIBRARY = "hopper_fp8", "cublas_fp8_blocks"


def problem_of(shape: tuple[int, int, int], width: int) -> Problem:
    m, n, k = shape
    return Problem(m, n, k, DTYPE, transpose_b=True, scale_columns=width)


def operands(problem: Problem) -> tuple[ScaledOperand, ScaledOperand]:
    """Only scales: elements are made on the device. Without scales the operands are empty."""
    rng, made = np.random.default_rng(7), []
    for name, shape, width in (
        ("a", (problem.m, problem.k), 1),
        ("b", (problem.n, problem.k), problem.scale_columns or 1),
    ):
        block = block_of(name, width, transposed=name == "b")
        scales = rng.uniform(0.5, 2.0, scale_shape(shape, block)).astype(np.float32)
        elements = np.broadcast_to(np.zeros(1, np.uint8), shape)
        made.append(ScaledOperand(HostOperand(elements), HostOperand(scales), block))
    return made[0], made[1]


def drawn(runner: CudaRunner, shape: tuple[int, int, int]) -> OperandSet:
    """A (m, k), and B (n, k) as it is stored."""
    from worker.cuda.bench.operands import OperandSet, random_set
    from worker.cuda.memory import allocate
    from worker.cuda.pitch import product_layout

    m, n, k = shape
    a, b = (
        random_set(runner.compiler, Problem(rows, 16, k, DTYPE), DataSpec(seed=seed)).a
        for seed, rows in ((1, m), (2, n))
    )
    return OperandSet(a, b, allocate(product_layout(Problem(m, n, k, DTYPE))))


def ours(runner: CudaRunner, problem: Problem) -> dict[str, Launch]:
    """`hopper_fp8` in the config that a job gets: with its own output type, and with bfloat16."""
    from worker.cuda.epilogue.fusable import Fusable
    from worker.cuda.epilogue.fused import FusedOnDevice
    from worker.cuda.launch import PreparedKernels
    from worker.cuda.memory import allocate
    from worker.cuda.pitch import operand_layout
    from worker.cuda.scaled.on_device import scales_on_device

    kernel, prepared = cuda_kernel(OURS), PreparedKernels(runner.compiler)
    config, pair = job_config(runner, kernel, problem), operands(problem)
    narrow = FusedEpilogue(NARROW)
    scales = scales_on_device(problem, pair, kernel) if problem.scale_columns else None
    plain, fused = prepared.get(kernel, config, problem), prepared.get(kernel, config, problem, narrow)
    asked = Fusable(kernel, config, problem, narrow, 1.0, 0.0, pair)
    d, argument = allocate(operand_layout(NARROW, problem.product_shape)), None if scales is None else scales.argument
    return {
        OURS: lambda at: plain.launch(at.a, at.b, at.c, scales=argument),
        f"{OURS} {NARROW}": lambda at: FusedOnDevice(
            runner.compiler, asked, fused, at.a, at.b, d, None, None, scales
        ).launch(),
    }


def library(cublas: Cublas, problem: Problem, at: OperandSet) -> dict[str, Launch]:
    """The fastest of cublasLt's proposals: float32, and bfloat16, which no job gets from it."""
    from worker.cuda.memory import allocate
    from worker.cuda.pitch import operand_layout
    from worker.cuda.scaled.on_device import scales_on_device

    scales = scales_on_device(problem, operands(problem), BY_NAME[LIBRARY])
    assert scales is not None, "it has some"
    d, found = allocate(operand_layout(NARROW, problem.product_shape)), dict[str, Launch]()
    for name, product in ((LIBRARY, at.c), (f"{LIBRARY} {NARROW}", d)):
        launch = cublas.blocks.multiplication(problem, scales, (at.a, at.b, product))
        found[name] = partial(lambda launch, _at: launch(), launch)
    return found


def measured(runner: CudaRunner, shapes: Sequence[tuple[int, int, int]]) -> Iterator[Mapping[str, Any]]:
    """A row for each shape and kind of scales: times in milliseconds."""
    from worker.cuda.library.cublas import Cublas

    sampler, cublas = sampler_of(runner), Cublas(runner.compiler)
    for shape in shapes:
        at = drawn(runner, shape)
        without = ours(runner, problem_of(shape, 0))
        for width in SCALE_WIDTHS:
            problem = problem_of(shape, width)
            launches = {**ours(runner, problem), **library(cublas, problem, at), "without scales": without[OURS]}
            times = times_ms(sampler, launches, at, SAMPLES)
            ms = rounded(times)
            yield {"m": problem.m, "n": problem.n, "k": problem.k, "scale_columns": width, "ms": ms}


def compile_with_outputs(runner: CudaRunner, shapes: Sequence[tuple[int, int, int]]) -> None:
    """Compiles the kernel for all shapes and both output types."""
    from worker.cuda.sources import kernel_program

    kernel, cases = cuda_kernel(OURS), []
    for shape in shapes:
        for width in (0, *SCALE_WIDTHS):
            problem = problem_of(shape, width)
            config = job_config(runner, kernel, problem)
            cases.append((kernel, config, problem))
            runner.compiler.binary(kernel_program(kernel, config, problem, fused=FusedEpilogue(NARROW)))
    compile_all(runner, cases)


def main() -> None:
    from worker.cuda.runner import CudaRunner

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="how many of them, the first ones")
    asked = parser.parse_args()
    runner, shapes = CudaRunner(Settings(device="gpu:0")), SHAPES[: asked.shapes]
    compile_with_outputs(runner, shapes)
    record(asked.out, runner.device.name, measured(runner, shapes))


if __name__ == "__main__":
    main()
