"""One launch of the sweep under compute-sanitizer."""

from __future__ import annotations

import cupy
import numpy as np

from kernels.model.numerics import DTYPES
from tests.gpu.sanitize.case import Swept
from tests.support.scaled.operands import scaled_operands
from worker.cuda.compile import Compiler
from worker.cuda.complex.matrices import RealOperands, as_real
from worker.cuda.epilogue.fusable import Fusable
from worker.cuda.epilogue.fused import FusedOnDevice
from worker.cuda.launch import PreparedKernels, prepare
from worker.cuda.memory import DeviceMatrix, allocate
from worker.cuda.pitch import Layout, operand_layout, product_layout, stored_shapes
from worker.cuda.scaled.on_device import ScalesOnDevice, scales_on_device


def run(compiler: Compiler, one: Swept) -> None:
    problem = one.problem
    on_a, on_b = (_filled(operand_layout(problem.dtype, shape), one.fill) for shape in stored_shapes(problem))
    if one.fused is not None:
        _run_fused(compiler, one, on_a, on_b)
    else:
        made, on_c = prepare(compiler, one.kernel, one.config, problem), _product(one)
        if DTYPES[problem.dtype].is_complex:
            arranged = RealOperands(compiler, problem, on_a, on_b)
            made.launch(as_real(on_a), as_real(on_b), as_real(on_c), others=arranged.behind)
        else:
            scales = _scales(one)
            made.launch(on_a, on_b, on_c, scales=None if scales is None else scales.argument)
    cupy.cuda.Device().synchronize()


def _product(one: Swept) -> DeviceMatrix:
    """Not initialised, except where a launch that the tool follows reads what bulk copies, which it does not see, have
    written."""
    layout = product_layout(one.problem)
    return _filled(layout, one.fill) if one.problem.symmetric and one.kernel.architecture_specific else allocate(layout)


def _scales(one: Swept) -> ScalesOnDevice | None:
    """To be kept until the launch is done."""
    if not one.problem.scale_columns:
        return None
    return scales_on_device(one.problem, scaled_operands(one.problem, np.random.default_rng(1)), one.kernel)


def _run_fused(compiler: Compiler, one: Swept, on_a: DeviceMatrix, on_b: DeviceMatrix) -> None:
    """With C and the bias in the type that is stored."""
    problem, fused = one.problem, one.fused
    assert fused is not None, "it has an epilogue"
    d = allocate(operand_layout(fused.output, problem.product_shape))
    c = _filled(d.layout, one.fill) if fused.has_c else None
    bias = _filled(operand_layout(fused.output, (1, problem.n)), one.fill) if fused.has_bias else None
    z = None if fused.activation is None else allocate(d.layout)
    prepared = PreparedKernels(compiler).get(one.kernel, one.config, problem, fused)
    asked = Fusable(one.kernel, one.config, problem, fused, 0.5, 2.0, ())  # type: ignore[arg-type]  # they are here
    FusedOnDevice(compiler, asked, prepared, on_a, on_b, d, c, bias, _scales(one), z).launch()
    cupy.cuda.Device().synchronize()


def _filled(layout: Layout, fill: int) -> DeviceMatrix:
    matrix = allocate(layout)
    matrix.memory.memset(fill, layout.bytes)
    return matrix
