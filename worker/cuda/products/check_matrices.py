"""A product's matrices in the form that its check reads: as they are stored, or derived from these.

A complex product is checked as the equivalent real one, and operands with block scales as the numbers that they stand
for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES, DTypeName, Problem
from worker.check.elements import core
from worker.check.host_matrix import HostMatrix
from worker.check.views.as_real import InBlocks, RealView, signs_of
from worker.cuda.check.matrices import CheckedMatrices, MatrixOnDevice
from worker.cuda.compile import Compiler
from worker.cuda.complex.matrices import RealOperands
from worker.cuda.memory import Matrices
from worker.cuda.scaled.on_device import dequantised_for_check
from worker.device.operands import HostOperand


@dataclass(frozen=True, slots=True)
class CheckMatrices:
    """A, B and the product on the device; A and B also in this process's memory, where the check rarely reads them."""

    on_device: CheckedMatrices
    on_host: tuple[HostMatrix, HostMatrix]
    derive: Sequence[Callable[[], None]] = ()  # each writes matrices on the current stream, before the check

    @property
    def are_stored(self) -> bool:
        """Whether the check reads the stored matrices, so that their digests can be taken from the same reads."""
        return not self.derive


def check_matrices(
    compiler: Compiler, problem: Problem, operands: Sequence[HostOperand], matrices: Matrices
) -> CheckMatrices:
    """`operands` are A and B, and maybe others; `matrices` are A, B and the product on the device. Raises cupy's
    OutOfMemoryError."""
    a, b = operands_on_host(problem, operands)
    if DTYPES[problem.dtype].is_complex:
        real = RealOperands(compiler, problem, *matrices[:2], for_check=True)
        on_host = RealView(a), InBlocks(b, signs_of(problem))
        return CheckMatrices(real.on_device(problem, matrices[2]), on_host, (real.arrange,))
    scaled = dequantised_for_check(compiler, problem, operands, matrices)
    of_a, of_b = (each.host for each in scaled) if scaled else (a, b)
    read = [each.matrix for each in scaled] or matrices
    on_device = CheckedMatrices(
        MatrixOnDevice(compiler, read[0], of_a.shape, problem.transpose_a),
        MatrixOnDevice(compiler, read[1], of_b.shape, problem.transpose_b),
        MatrixOnDevice(compiler, matrices[2], (problem.batch, problem.m, problem.n)),
    )
    return CheckMatrices(on_device, (of_a, of_b), tuple(each.make for each in scaled))


def operands_on_host(problem: Problem, operands: Sequence[HostOperand]) -> tuple[HostMatrix, HostMatrix]:
    """A and B as they enter the product, in this process's memory."""
    a, b = operands[:2]
    return (
        _OperandOnHost(a, problem.dtype, transposed=problem.transpose_a),
        _OperandOnHost(b, problem.dtype, transposed=problem.transpose_b),
    )


class _OperandOnHost(HostMatrix):
    """An operand as it enters the product. It is opened only if the check reads its elements, which is rare."""

    def __init__(self, operand: HostOperand, dtype: DTypeName, *, transposed: bool) -> None:
        batch, rows, columns = operand.shape if len(operand.shape) == 3 else (1, *operand.shape)
        self.shape = (batch, columns, rows) if transposed else (batch, rows, columns)
        self.dtype = dtype
        self._operand = operand
        self._transposed = transposed

    @property
    def array(self) -> Array:
        return core(self._operand.elements, transposed=self._transposed)
