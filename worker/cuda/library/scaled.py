"""8-bit operands with block scales by cuBLAS: by its own product of such, or multiplied by their scales first and then
as float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kernels.model.kernel import Kernel
from kernels.model.numerics import Problem
from worker.cuda.compile import Compiler
from worker.cuda.library.cublas import Cublas
from worker.cuda.memory import Matrices, allocate
from worker.cuda.scaled.arrangement import dequantised_layout, launch_of, sizes_of
from worker.cuda.scaled.on_device import ScalesOnDevice, dequantise_arguments
from worker.cuda.sources import scales_program


def multiplication(
    compiler: Compiler, cublas: Cublas, kernel: Kernel, problem: Problem, scales: ScalesOnDevice, matrices: Matrices
) -> Callable[[], None]:
    """Puts the product on the current stream. Raises KernelUnavailable, DeviceFault, cupy's OutOfMemoryError."""
    if kernel.needs_scales:
        return cublas.blocks.multiplication(problem, scales, matrices)
    return _dequantised(compiler, cublas, problem, scales, matrices)


def _dequantised(
    compiler: Compiler, cublas: Cublas, problem: Problem, scales: ScalesOnDevice, matrices: Matrices
) -> Callable[[], None]:
    a, b, c = matrices
    made = [allocate(dequantised_layout(each.layout)) for each in (a, b)]
    plain = replace(problem, dtype="float32", scale_columns=0)
    function = compiler.function(scales_program(), "dequantise")
    width_b = problem.scale_columns
    along = (not problem.transpose_a, problem.transpose_b)

    def multiply() -> None:
        each = zip((a, b), made, (scales.a, scales.b), (1, width_b), along, strict=True)
        for source, to, of, width, along_columns in each:
            planned, stride = launch_of(source.layout), of[0].size if len(of) > 1 else 0
            numbers = (*sizes_of(source.layout, to.layout), of.shape[2], stride, width, int(along_columns))
            function(planned.grid, planned.block, dequantise_arguments(source, to, of, numbers))
        cublas.multiply("cublas", plain, made[0], made[1], c)

    return multiply
