"""A tile on the device with its panels, for its check; complex tiles as the equivalent real product."""

from __future__ import annotations

from collections.abc import Callable

from kernels.model.numerics import DTYPES, Problem
from worker.check.elements import core
from worker.check.host_matrix import HostMatrix
from worker.check.views.as_real import InBlocks, RealView, signs_of
from worker.cuda.check.device_product import DeviceProduct
from worker.cuda.check.matrices import CheckedMatrices, MatrixOnDevice
from worker.cuda.compile import Compiler
from worker.cuda.complex.matrices import RealOperands
from worker.cuda.memory import DeviceMatrix
from worker.cuda.tiles.host import HostMemory
from worker.cuda.tiles.panels import Panel


def checkable(
    compiler: Compiler,
    problem: Problem,
    panels: tuple[Panel, Panel],
    memories: tuple[HostMemory, HostMemory],
    c: DeviceMatrix,
    sketched: Callable[[], None] | None = None,
) -> DeviceProduct:
    """`problem` is the tile's; `memories` are the stored operands that its panels are parts of. `sketched` is called
    once the check's projections are on the stream."""
    a, b = (panel.matrix for panel in panels)
    of_a, of_b = (
        _on_host(panel, memory, transposed=transposed)
        for panel, memory, transposed in zip(panels, memories, (problem.transpose_a, problem.transpose_b), strict=True)
    )
    if DTYPES[problem.dtype].is_complex:
        real = RealOperands(compiler, problem, a, b, for_check=True)
        real.arrange()
        hosts: tuple[HostMatrix, HostMatrix] = RealView(of_a), InBlocks(of_b, signs_of(problem))
        return DeviceProduct(real.on_device(problem, c), hosts)
    matrices = CheckedMatrices(
        MatrixOnDevice(compiler, a, of_a.shape, problem.transpose_a),
        MatrixOnDevice(compiler, b, of_b.shape, problem.transpose_b),
        MatrixOnDevice(compiler, c, (problem.batch, problem.m, problem.n)),
    )
    return DeviceProduct(matrices, (of_a, of_b), sketched=sketched)


def _on_host(panel: Panel, memory: HostMemory, *, transposed: bool) -> HostMatrix:
    items, rows, columns = (slice(span.start, span.stop) for span in panel.part)
    return HostMatrix(core(memory.array[items, rows, columns], transposed=transposed), memory.dtype)
