"""What a run's products need compiled, found before the first of them, so that all cores compile it at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kernels.model.kernel import DeviceTraits
from kernels.model.numerics import DTYPES
from tests.stress.asked import named, own_epilogue
from tests.stress.cases import Case
from worker.cuda.sources import (
    Program,
    complex_check_program,
    complex_finite_program,
    complex_layout_program,
    direct_program,
    epilogue_check_program,
    epilogue_program,
    gather_program,
    recheck_program,
    scales_program,
    sketch_program,
)
from worker.device.runner import Runner

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner


def compile_ahead(runner: Runner, cases: Iterable[Case]) -> None:
    """Raises KernelUnavailable."""
    cases, traits = list(cases), runner.device.traits
    runner.compile_ahead((named(case, traits), case.problem) for case in cases)
    if traits.device_class == "gpu":
        _compile(runner, {program for case in cases for program in programs_beside(case, traits)})  # type: ignore[arg-type]


def _compile(runner: CudaRunner, programs: set[Program]) -> None:
    runner.compiler.compile_all(programs)


def programs_beside(case: Case, traits: DeviceTraits) -> Iterator[Program]:
    """Besides those of the kernel: of its own epilogue or of a pass behind it, and of the check of both."""
    problem, asked = case.problem, case.drawn.ending
    if (own := own_epilogue(case, traits)) is not None:
        output, product = own.fused.output, own.problem.product_dtype
        yield from (*own.programs, recheck_program(own.problem.dtype, None if output == product else output))
        yield gather_program(output)
    elif asked is not None:
        pair = problem.product_dtype, asked.activation, asked.output
        yield epilogue_program(*pair, has_bias=bool(asked.bias))
        yield epilogue_check_program(*pair, has_bias=bool(asked.bias))
        yield gather_program(DTYPES[problem.product_dtype].real)
    yield from _of_check(case)


def _of_check(case: Case) -> Iterator[Program]:
    problem = case.problem
    real, ways = DTYPES[problem.dtype].real, (problem.transpose_a, problem.transpose_b)
    if DTYPES[problem.dtype].is_complex:
        ways = (False, False)
        yield from (complex_layout_program(real), complex_check_program(real), complex_finite_program(real))
    if problem.scale_columns:
        yield scales_program()
        real = "float32"
    yield sketch_program(real, ways)
    if not DTYPES[real].is_integer:
        yield from (direct_program(real, ways), recheck_program(real))
