"""Operands of a benchmark, made on the device from a seed, with the product they are multiplied into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from jobs.benchmarks.spec import DataSpec
from jobs.formats import float8
from jobs.formats.elements import STORAGE_DTYPES
from kernels.model.numerics import DTYPES, DTypeName, Problem
from worker.cuda.bench.plan import DISTRIBUTIONS, drawn
from worker.cuda.check.device_product import DeviceProduct
from worker.cuda.check.matrices import CheckedMatrices, MatrixOnDevice
from worker.cuda.compile import Compiler
from worker.cuda.complex.matrices import as_real
from worker.cuda.memory import DeviceMatrix, allocate
from worker.cuda.pitch import operand_layout, product_layout
from worker.cuda.sources import random_program

THREADS = 256  # of a block, as in cuda/random.cu
MAX_BLOCKS = 1 << 16
BLOCK_ELEMENTS = 1 << 24  # widened to float64 at a time
NAN_BYTES = 0xFF  # every byte: NaN in each float type


@dataclass(frozen=True, slots=True)
class OperandSet:
    """Two operands and their product."""

    a: DeviceMatrix
    b: DeviceMatrix
    c: DeviceMatrix

    @property
    def bytes(self) -> int:
        return sum(matrix.layout.bytes for matrix in (self.a, self.b, self.c))

    def copied(self) -> OperandSet:
        """A copy of the operands, with a product of its own."""
        return OperandSet(_copied(self.a), _copied(self.b), allocate(self.c.layout))

    def poison(self) -> None:
        """Fills the product with NaN, or the lowest integer, which no kernel computes from such operands."""
        layout = self.c.layout
        if layout.dtype == "int32":
            whole = cupy.ndarray((layout.bytes // 4,), np.int32, self.c.memory)
            whole.fill(np.iinfo(np.int32).min)
        else:
            self.c.memory.memset_async(NAN_BYTES, layout.bytes)


def random_set(compiler: Compiler, problem: Problem, data: DataSpec) -> OperandSet:
    """Random operands for a plain product, a batch of them or a grouped one; only B may be transposed. Raises cupy's
    OutOfMemoryError."""
    of_b = (problem.n, problem.k) if problem.transpose_b else (problem.k, problem.n)
    items = len(problem.group_sizes) or problem.batch
    a = _random(compiler, problem.dtype, (problem.batch, problem.m, problem.k), data, 2 * data.seed)
    b = _random(compiler, problem.dtype, (items, *of_b), data, 2 * data.seed + 1)
    return OperandSet(a, b, allocate(product_layout(problem, dense=data.layout == "dense")))


def _random(
    compiler: Compiler, dtype: DTypeName, shape: tuple[int, int, int], data: DataSpec, seed: int
) -> DeviceMatrix:
    matrix = allocate(operand_layout(dtype, shape, dense=data.layout == "dense"))
    if DTYPES[dtype].is_complex:  # both parts are drawn
        _draw(compiler, as_real(matrix), (*shape[:2], 2 * shape[2]), data, seed)
    else:
        _draw(compiler, matrix, shape, data, seed)
    return matrix


def _draw(compiler: Compiler, matrix: DeviceMatrix, shape: tuple[int, int, int], data: DataSpec, seed: int) -> None:
    dtype = matrix.layout.dtype
    # A batch is drawn as one tall matrix; what pads it between its items meets only what pads the rows of others.
    rows = shape[1] if shape[0] == 1 else shape[0] * matrix.layout.kept_rows
    blocks = min(MAX_BLOCKS, -(-rows * shape[2] // THREADS))
    sizes = (np.int64(rows), np.int64(shape[2]), np.int64(matrix.layout.pitch))
    distribution = np.int32(DISTRIBUTIONS[drawn(dtype, data.distribution)])
    arguments = (np.uint64(matrix.address), *sizes, np.uint64(seed), distribution, np.float64(data.scale))
    compiler.function(random_program(dtype), "draw")((blocks,), (THREADS,), arguments)


def _copied(matrix: DeviceMatrix) -> DeviceMatrix:
    memory = cupy.cuda.alloc(max(matrix.layout.bytes, 1))
    memory.copy_from_device_async(matrix.memory, matrix.layout.bytes)
    return DeviceMatrix(matrix.layout, memory)


def view(matrix: DeviceMatrix, item: int = 0) -> Any:
    """(rows, columns) of a matrix of the batch, without what pads the rows; floats that numpy has not as their bits."""
    first, layout = item * matrix.layout.kept_rows, matrix.layout
    return _tall(matrix)[first : first + layout.rows]


def _tall(matrix: DeviceMatrix) -> Any:
    """The matrices of a batch below each other, with the rows between them."""
    layout, dtype = matrix.layout, np.dtype(STORAGE_DTYPES[matrix.layout.dtype])
    whole = cupy.ndarray((layout.batch * layout.kept_rows, layout.pitch), dtype, matrix.memory)
    return whole[:, : layout.columns]


def as_float64(elements: Any, dtype: DTypeName) -> Any:
    """A float64 copy on the device of a part of `view`, exact for every element type."""
    if dtype == "bfloat16":
        elements = (elements.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype == "float8_e4m3":
        elements = cupy.asarray(float8.VALUES)[elements]
    return elements.astype(np.float64)


@dataclass(frozen=True, slots=True)
class MadeOnDevice(MatrixOnDevice):
    """A matrix that this process's memory does not hold."""

    def largest(self) -> float:
        """The largest finite magnitude, found by rows."""
        elements, dtype = _tall(self.matrix), self.dtype
        peak, height = 0.0, max(1, BLOCK_ELEMENTS // max(1, elements.shape[1]))
        for row in range(0, elements.shape[0], height):
            values = cupy.abs(as_float64(elements[row : row + height], dtype))
            peak = max(peak, float(cupy.where(cupy.isfinite(values), values, 0.0).max()))
        return peak


def as_operands(compiler: Compiler, problem: Problem, at: OperandSet) -> DeviceProduct:
    """The matrices in the form that the check of a product reads."""
    m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
    a = MadeOnDevice(compiler, at.a, (batch, m, k))
    b = MadeOnDevice(compiler, at.b, (batch, k, n), transposed=problem.transpose_b)
    c = MatrixOnDevice(compiler, at.c, (batch, m, n))
    return DeviceProduct(CheckedMatrices(a, b, c), (a, b))
