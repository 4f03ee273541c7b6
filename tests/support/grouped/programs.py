"""Programs of products whose rows are in groups, for `tests.support.programs`."""

from __future__ import annotations

from collections.abc import Iterator

from kernels.catalog import BY_NAME
from kernels.model.architectures import ARCHITECTURES
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from worker.cuda.sources import Program, kernel_program


def named(*names: str) -> Iterator[CudaKernel]:
    for kernel in map(BY_NAME.__getitem__, names):
        assert isinstance(kernel, CudaKernel)
        yield kernel


def with_groups(kernel: CudaKernel, dtype: DTypeName, config: TileConfig = NO_CONFIG, *, flip: bool = False) -> Program:
    """Of rows in groups."""
    problem = Problem(2, 512, 512, dtype, transpose_b=flip, group_sizes=(1, 1))
    return kernel_program(kernel, kernel.resolve_config(config, problem), problem)


def of_hopper_groups() -> list[Program]:
    """In all configs that are for groups; B by turns along and across k."""
    return [
        with_groups(kernel, kernel.dtypes[0], config, flip=index % 2 == 1)
        for kernel in named("hopper_bf16", "hopper_fp16")
        for index, config in enumerate(kernel.groups.configs if kernel.groups else ())
    ]


def of_groups(arch: str) -> list[Program]:
    """On each architecture one type of each portable kernel, so that every type has its turn."""
    index, traits = tuple(ARCHITECTURES).index(arch), ARCHITECTURES[arch].traits
    able = [kernel for kernel in named("pipelined", "warp_tiled") if kernel.unsupported_because(traits) is None]
    return [with_groups(each, each.dtypes[index % len(each.dtypes)], flip=index % 2 == 1) for each in able]
