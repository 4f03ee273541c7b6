"""Block scales on the device, and operands multiplied by them there: for a product and, by another function from
scales as they were sent, for its check."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from jobs.errors import KernelUnavailable
from jobs.formats.elements import Array
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.numerics import Problem
from worker.cuda.compile import Compiler
from worker.cuda.memory import DeviceMatrix, allocate
from worker.cuda.scaled.arrangement import (
    LARGEST_COUNT,
    by_stage,
    dequantised_layout,
    for_bulk_copies,
    for_library,
    launch_of,
    sizes_of,
)
from worker.cuda.sources import scales_program
from worker.device.operands import HostOperand
from worker.device.scaled import ScaledOperand

_AS_ARGUMENT = struct.Struct("<QQiiii")  # `Scales` of hopper_scales.cuh


@dataclass(frozen=True, slots=True)
class ScalesOnDevice:
    """The scales of A and B in the layout of the kernel that multiplies."""

    a: Any  # cupy arrays
    b: Any

    @property
    def argument(self) -> bytes:
        """The scales as a kernel argument."""
        pitches = [each.shape[2] for each in (self.a, self.b)]
        strides = [each[0].size if len(each) > 1 else 0 for each in (self.a, self.b)]
        return _AS_ARGUMENT.pack(self.a.data.ptr, self.b.data.ptr, *pitches, *strides)

    def addresses(self, item: int) -> tuple[int, int]:
        """The addresses of the scales of one product of a batch."""
        of_a, of_b = (each[item if len(each) > 1 else 0].data.ptr for each in (self.a, self.b))
        return of_a, of_b


def scales_on_device(problem: Problem, operands: Sequence[HostOperand], kernel: Kernel) -> ScalesOnDevice | None:
    """The scales in that kernel's layout; None for operands without scales. Raises KernelUnavailable, cupy's
    OutOfMemoryError.
    """
    a, b = operands[:2]
    if not (isinstance(a, ScaledOperand) and isinstance(b, ScaledOperand)):
        return None
    both = by_stage(problem, a, "a"), by_stage(problem, b, "b")
    if max(each.size for each in both) > LARGEST_COUNT:
        raise KernelUnavailable("There are more block scales than kernels here count; make the product smaller.")
    of_a, of_b = both
    if kernel.needs_scales:
        of_a, of_b = for_library(problem, of_a, of_b)
    elif isinstance(kernel, CudaKernel):
        of_b = for_bulk_copies(problem, of_b)
    return ScalesOnDevice(cupy.asarray(of_a), cupy.asarray(of_b))


class DequantisedForCheck:
    """An operand as the check reads it, written by `make`."""

    def __init__(self, compiler: Compiler, operand: ScaledOperand, matrix: DeviceMatrix, *, transposed: bool) -> None:
        """Raises cupy's OutOfMemoryError."""
        self.host = operand.matrix(transposed=transposed)  # the same numbers in this process's memory
        self.matrix = allocate(dequantised_layout(matrix.layout))
        self._function = compiler.function(scales_program(), "dequantise_check")
        self._source, self._block = matrix, operand.block
        sent: Array = np.ascontiguousarray(operand.scales.elements)
        self._scales = cupy.asarray(sent)

    def make(self) -> None:
        """Dequantises the operands, on the current stream."""
        planned = launch_of(self._source.layout)
        numbers = (*sizes_of(self._source.layout, self.matrix.layout), *self._block)
        self._function(
            planned.grid, planned.block, dequantise_arguments(self._source, self.matrix, self._scales, numbers)
        )


def dequantised_for_check(
    compiler: Compiler, problem: Problem, operands: Sequence[HostOperand], matrices: Sequence[DeviceMatrix]
) -> tuple[DequantisedForCheck, ...]:
    """A and B as float32 numbers, if they have block scales; otherwise nothing. Raises cupy's OutOfMemoryError."""
    transposes = problem.transpose_a, problem.transpose_b
    return tuple(
        DequantisedForCheck(compiler, operand, matrix, transposed=transposed)
        for operand, matrix, transposed in zip(operands[:2], matrices, transposes, strict=False)
        if isinstance(operand, ScaledOperand)
    )


def dequantise_arguments(
    source: DeviceMatrix, made: DeviceMatrix, scales: Any, numbers: Sequence[int]
) -> tuple[np.generic, ...]:
    addresses = source.address, made.address, scales.data.ptr
    return (*map(np.uint64, addresses), *map(np.int64, numbers))
