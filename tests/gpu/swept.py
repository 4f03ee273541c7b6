"""One launch of the sweep under compute-sanitizer."""

from __future__ import annotations

import cupy

from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, Problem
from worker.cuda.compile import Compiler
from worker.cuda.complex.matrices import RealOperands, as_real
from worker.cuda.launch import prepare
from worker.cuda.memory import DeviceMatrix, allocate
from worker.cuda.pitch import Layout, operand_layout, product_layout, stored_shapes


def run(compiler: Compiler, kernel: CudaKernel, config: TileConfig, problem: Problem, fill: int) -> None:
    on_a, on_b = (_filled(operand_layout(problem.dtype, shape), fill) for shape in stored_shapes(problem))
    on_c, made = allocate(product_layout(problem)), prepare(compiler, kernel, config, problem)
    if DTYPES[problem.dtype].is_complex:
        arranged = RealOperands(compiler, problem, on_a, on_b)
        made.launch(as_real(on_a), as_real(on_b), as_real(on_c), others=arranged.behind)
    else:
        made.launch(on_a, on_b, on_c)
    cupy.cuda.Device().synchronize()


def _filled(layout: Layout, fill: int) -> DeviceMatrix:
    matrix = allocate(layout)
    matrix.memory.memset(fill, layout.bytes)
    return matrix
