"""The programs that must be compiled before a kernel can be launched for a problem: its own and the auxiliary ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.kinds.composed import ComposedKernel
from kernels.model.kinds.pairs import inner_problem
from kernels.model.numerics import DTYPES, Problem
from kernels.model.triangle import whole
from kernels.selection.candidates import Choice
from kernels.selection.composed import real_choice
from worker.cuda.sources import (
    Program,
    complex_layout_program,
    copy_program,
    edge_program_of,
    kernel_program,
    mirror_program,
    transpose_program,
)

KEPT = 4096


def programs_of_choice(choice: Choice, problem: Problem, traits: DeviceTraits) -> frozenset[Program]:
    """The programs for a choice of any kernel; a library has none."""
    kernel = choice.kernel
    if isinstance(kernel, ComposedKernel):
        inner = real_choice(choice, problem, traits)
        multiplied = inner_problem(inner.kernel, problem)
        is_behind = DTYPES[multiplied.dtype].is_complex
        return programs_of_choice(inner, multiplied, traits) | {
            complex_layout_program(DTYPES[problem.dtype].real, gated=is_behind)
        }
    return programs_of(kernel, choice.config, problem, traits) if isinstance(kernel, CudaKernel) else frozenset()


def programs_of(kernel: CudaKernel, config: TileConfig, problem: Problem, traits: DeviceTraits) -> frozenset[Program]:
    """All programs that `worker/cuda/launch.py` loads for the kernel. `config` must be complete."""
    return _programs_of(kernel.name, tuple(config.items()), problem, traits)


@lru_cache(maxsize=KEPT)
def _programs_of(
    name: str, config: tuple[tuple[str, int], ...], problem: Problem, traits: DeviceTraits
) -> frozenset[Program]:
    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel), "what it is made of was one"
    return frozenset(_programs(kernel, dict(config), problem, traits))


def _programs(kernel: CudaKernel, config: TileConfig, problem: Problem, traits: DeviceTraits) -> Iterator[Program]:
    fallback = kernel.fallback
    if fallback is not None:
        problem = whole(problem)
        always = fallback.always(problem)
        substitute = fallback.kernel.resolve_config(fallback.config, problem.as_real, traits)
        yield from _own(fallback.kernel, substitute, problem.as_real, gated=not always)
        if always:
            return
    yield from _own(kernel, config, problem, gated=False)


def _own(kernel: CudaKernel, config: TileConfig, problem: Problem, *, gated: bool) -> Iterator[Program]:
    plan = kernel.plan(problem, config)
    yield kernel_program(kernel, config, problem, gated=gated, plan=plan)
    if plan.launched != plan.inner:
        yield transpose_program(DTYPES[problem.dtype].itemsize, gated=gated)
    if gated:
        yield copy_program()
    if plan.mirrored:
        yield mirror_program(DTYPES[problem.product_dtype].itemsize)
    if (edge := edge_program_of(problem, plan.inner)) is not None:
        yield edge
