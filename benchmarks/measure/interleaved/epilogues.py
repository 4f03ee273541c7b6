"""Measures alpha·A·B + beta·C, a bias and an activation on a GPU: in the kernel itself, and in a pass after it, beside
the kernel alone, cuBLAS's product alone, and cublasLt's with the same activation where it has that one.

    python -m benchmarks.measure.interleaved.epilogues --out benchmarks/results/h100_epilogues.json

Times are medians of alternating samples with a cold cache; launches are queued before they are timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure.interleaved.launches import compile_all, job_config
from benchmarks.measure.interleaved.library_epilogue import WITH_BIAS, Following
from benchmarks.measure.interleaved.timing import Launch, cuda_kernel, rounded, run_by_size, sampler_of, times_ms
from jobs.benchmarks.spec import DataSpec
from kernels.model.activations import ACTIVATION_NAMES, ActivationName
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.candidates import Choice
from worker.cpu.device import usable_cores
from worker.cuda.sources import epilogue_program
from worker.device.operands import HostOperand

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet
    from worker.cuda.epilogue.fusable import Fusable
    from worker.cuda.library.cublas import Cublas
    from worker.cuda.memory import DeviceMatrix
    from worker.cuda.runner import CudaRunner

SIZES, SAMPLES = (4096, 8192), 11
KERNELS: tuple[tuple[str, DTypeName, str], ...] = (
    ("hopper_bf16", "bfloat16", "cublas_tuned"),
    ("hopper_fp16", "float16", "cublas_tuned"),
    ("hopper_tf32", "float32", "cublas_tf32_tuned"),
)
# C, a bias, and an activation.
ADDED: tuple[tuple[bool, bool, ActivationName | None], ...] = (
    (False, True, None),
    (True, False, None),
    (True, True, None),
    *((False, True, activation) for activation in ACTIVATION_NAMES),
)
ALPHA, BETA = 0.5, -0.25


@dataclass(frozen=True, slots=True)
class Addends:
    """C, a bias for columns, and where D goes."""

    c: DeviceMatrix
    bias: DeviceMatrix
    d: DeviceMatrix


def drawn(runner: CudaRunner, problem: Problem) -> tuple[OperandSet, Addends]:
    """Random operands, a C as large as the product, a bias of one row, and memory for D."""
    from worker.cuda.bench.operands import random_set
    from worker.cuda.memory import allocate
    from worker.cuda.pitch import operand_layout

    at = random_set(runner.compiler, replace(problem, transpose_b=False), DataSpec())
    square = Problem(problem.m, 1, problem.n, problem.dtype)
    c = random_set(runner.compiler, square, DataSpec(seed=1)).a
    bias = random_set(runner.compiler, replace(square, m=1), DataSpec(seed=2)).a
    return at, Addends(c, bias, allocate(operand_layout(problem.dtype, problem.product_shape)))


def fused(
    kernel: CudaKernel,
    runner: CudaRunner,
    problem: Problem,
    activation: ActivationName | None,
    *,
    has_c: bool,
    has_bias: bool,
) -> Fusable:
    """The fused kernel, as a job gets it."""
    from worker.cuda.epilogue.fusable import fusable
    from worker.device.runner import Epilogue

    some, traits = HostOperand(np.zeros((1, 1), np.float32)), runner.device.traits
    added = some if has_c else None, some if has_bias else None
    epilogue = Epilogue(ALPHA, BETA * has_c, *added, activation, may_fuse=True)
    choice = Choice(kernel, kernel.resolve_config(NO_CONFIG, problem, traits), "")
    found = fusable(problem, choice, (some, some), epilogue, traits)
    assert found is not None, "such a kernel was named"
    return found


def launches_of(
    runner: CudaRunner, cublas: Cublas, problem: Problem, names: tuple[str, str], given: Addends
) -> Callable[[bool, bool, ActivationName | None], dict[str, Launch]]:
    """Launches that compute the product with its epilogue, by their names in a row. `names`: of kernel and library."""
    from worker.cuda.epilogue.fused import FusedOnDevice
    from worker.cuda.epilogue.on_device import EpilogueOnDevice
    from worker.cuda.launch import PreparedKernels
    from worker.cuda.memory import allocate

    kernel, prepared = cuda_kernel(names[0]), PreparedKernels(runner.compiler)
    plain = prepared.get(kernel, job_config(runner, kernel, problem), problem)

    compiler, z = runner.compiler, allocate(given.d.layout)

    def of(has_c: bool, has_bias: bool, activation: ActivationName | None) -> dict[str, Launch]:
        asked = fused(kernel, runner, problem, activation, has_c=has_c, has_bias=has_bias)
        one = prepared.get(asked.kernel, asked.config, problem, asked.fused)
        c, bias = given.c if has_c else None, given.bias if has_bias else None
        of_z = None if activation is None else z
        after = (ALPHA, BETA * has_c)

        def by_a_pass(at: OperandSet) -> None:
            plain.launch(at.a, at.b, at.c)
            EpilogueOnDevice(compiler, *after, at.c, c, given.d, bias, activation).launch()

        return {
            "alone": lambda at: plain.launch(at.a, at.b, at.c),
            "pass": by_a_pass,
            "fused": lambda at: FusedOnDevice(compiler, asked, one, at.a, at.b, given.d, c, bias, None, of_z).launch(),
            names[1]: lambda at: cublas.multiply(names[1], problem, at.a, at.b, at.c),
        }

    return of


def measured(runner: CudaRunner, sizes: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """A row for each type, size and epilogue: times in milliseconds."""
    from worker.cuda.library.cublas import Cublas

    compile_with_epilogues(runner, sizes)
    sampler, cublas = sampler_of(runner), Cublas(runner.compiler)
    for name, dtype, library in KERNELS:
        for n in sizes:
            problem = Problem(n, n, n, dtype)
            at, given = drawn(runner, problem)
            cublas.tune(library, NO_CONFIG, problem, (at.a, at.b, at.c))
            of = launches_of(runner, cublas, problem, (name, library), given)
            for has_c, has_bias, activation in ADDED:
                launches = of(has_c, has_bias, activation)
                if not has_c and activation in WITH_BIAS:
                    following = Following(runner.compiler, WITH_BIAS[activation], given.bias)
                    launches["library_epilogue"] = following.fastest(library, problem, (at.a, at.b, given.d))
                times = times_ms(sampler, launches, at, SAMPLES)
                ms = rounded(times)
                yield {"kernel": name, "n": n, "c": has_c, "bias": has_bias, "activation": activation, "ms": ms}


def compile_with_epilogues(runner: CudaRunner, sizes: Sequence[int]) -> None:
    """Compiles all kernels and epilogues, on all cores."""
    cases, epilogues = [], set()
    for name, dtype, _ in KERNELS:
        kernel = cuda_kernel(name)
        for n in sizes:
            problem = Problem(n, n, n, dtype)
            cases.append((kernel, job_config(runner, kernel, problem), problem))
            for has_c, has_bias, activation in ADDED:
                asked = fused(kernel, runner, problem, activation, has_c=has_c, has_bias=has_bias)
                epilogues |= {next(iter(asked.programs)), epilogue_program(dtype, activation, has_bias=has_bias)}
    compile_all(runner, cases)
    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(runner.compiler.binary, epilogues))


if __name__ == "__main__":
    run_by_size(__doc__, SIZES, measured)
