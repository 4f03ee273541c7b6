"""`cublas`, NVIDIA's library at the operands' own precision, and its modes that lower it; through CuPy's bindings.

cuBLAS is column-major. A row-major matrix is its own transpose there, so C = A·B is asked for as Cᵀ = Bᵀ·Aᵀ: operands
and sizes change places, and nothing is copied.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from cupy_backends.cuda.libs import cublas

from jobs.errors import KernelUnavailable
from jobs.formats.elements import Array
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.groups import groups_of
from kernels.model.numerics import DTypeName, Problem
from kernels.model.padding import MAX_PAD
from worker.cuda.compile import Compiler
from worker.cuda.complex.arrangement import conjugate
from worker.cuda.complex.matrices import conjugated
from worker.cuda.grouped.slices import matrices_of
from worker.cuda.library.cublas_blocks import BlockScaledCublas
from worker.cuda.library.cublas_lt import CublasLt, LtProduct
from worker.cuda.library.cublas_tuned import TUNED, TunedCublas
from worker.cuda.memory import DeviceMatrix, Matrices, allocate
from worker.cuda.pitch import IN_GROUPS, in_groups
from worker.cuda.transpose import transpose, transpose_function, transposed_layout

LARGEST_SIZE = 2**31 - 1  # these bindings take 32-bit sizes
# Partial sums of 16-bit products stay in float32, also where work is split along k.
FULL_PRECISION_REDUCTION = 16
FAST_FLOAT8 = "cublas_fp8_fast"
KEPT = 4096  # products that are remembered


@dataclass(frozen=True, slots=True)
class Mode:
    """How cuBLAS is asked to multiply one element type: its own numbers for types, and alpha and beta for it."""

    operand_type: int
    product_type: int
    compute_type: int
    scalar: type[np.generic]


HALF, BFLOAT, SINGLE, DOUBLE, INT8, INT32 = 2, 14, 0, 1, 3, 10  # cudaDataType
COMPLEX_SINGLE, COMPLEX_DOUBLE = 4, 5
OWN_PRECISION: Mapping[DTypeName, Mode] = {
    "float16": Mode(HALF, HALF, cublas.CUBLAS_COMPUTE_32F, np.float32),
    "bfloat16": Mode(BFLOAT, BFLOAT, cublas.CUBLAS_COMPUTE_32F, np.float32),
    "float32": Mode(SINGLE, SINGLE, cublas.CUBLAS_COMPUTE_32F, np.float32),
    "float64": Mode(DOUBLE, DOUBLE, cublas.CUBLAS_COMPUTE_64F, np.float64),
    "int8": Mode(INT8, INT32, cublas.CUBLAS_COMPUTE_32I, np.int32),
    "complex64": Mode(COMPLEX_SINGLE, COMPLEX_SINGLE, cublas.CUBLAS_COMPUTE_32F, np.complex64),
    "complex128": Mode(COMPLEX_DOUBLE, COMPLEX_DOUBLE, cublas.CUBLAS_COMPUTE_64F, np.complex128),
}

SINGLE_MODE = OWN_PRECISION["float32"]
# What cuBLAS may round float32 operands to, by kernel (or else to TF32); sums stay in float32.
MODES: Mapping[str, Mapping[DTypeName, Mode]] = {
    "cublas": OWN_PRECISION,
    "cublas_tf32": {"float32": replace(SINGLE_MODE, compute_type=cublas.CUBLAS_COMPUTE_32F_FAST_TF32)},
    "cublas_bf16": {"float32": replace(SINGLE_MODE, compute_type=cublas.CUBLAS_COMPUTE_32F_FAST_16BF)},
    "cublas_fp16": {"float32": replace(SINGLE_MODE, compute_type=cublas.CUBLAS_COMPUTE_32F_FAST_16F)},
}


class Cublas:
    """A handle on the current device. For use by one thread."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._transpose = transpose_function(compiler, "int8")  # for any elements of a byte
        self._lt: CublasLt | None = None  # once it is needed
        self._blocks: BlockScaledCublas | None = None
        self._tuned: TunedCublas | None = None
        self._seen: OrderedDict[tuple[str, Problem], None] = OrderedDict()
        self._handle = cublas.create()
        cublas.setPointerMode(self._handle, cublas.CUBLAS_POINTER_MODE_HOST)
        # float32 is not lowered to TF32 unless a mode says so.
        cublas.setMathMode(self._handle, cublas.CUBLAS_DEFAULT_MATH | FULL_PRECISION_REDUCTION)

    def has_multiplied(self, kernel: str, problem: Problem) -> bool:
        """Whether what the library launches for it has been loaded, for all that is known."""
        return (kernel, problem) in self._seen

    def is_ready(self, kernel: str, config: TileConfig, problem: Problem) -> bool:
        """Whether the product needs no trial first. Safe to call from any thread."""
        if kernel not in TUNED or not problem.flops:
            return True
        return self._tuned is not None and self._tuned.is_tuned(kernel, _pad(config), _depth_first(problem))

    def tune(self, kernel: str, config: TileConfig, problem: Problem, matrices: Matrices) -> None:
        """Runs the trials of a product's first use. Raises KernelUnavailable, DeviceFault."""
        if kernel in TUNED and problem.flops:
            a, b, c = matrices
            depth_first, a, b = self.depth_first(problem, a, b)
            self._tuned_handle().tune(kernel, _pad(config), depth_first, (a, b, c))

    def multiply(
        self,
        kernel: str,
        problem: Problem,
        a: DeviceMatrix,
        b: DeviceMatrix,
        c: DeviceMatrix,
        config: TileConfig = NO_CONFIG,
    ) -> None:
        """Puts the product on the current stream. Raises KernelUnavailable, cupy's CUBLASError."""
        self._seen[kernel, problem] = None
        if len(self._seen) > KEPT:
            self._seen.popitem(last=False)
        if problem.k == 0:
            c.memory.memset_async(0, c.layout.bytes)
            return
        if problem.group_sizes:
            for group in groups_of(problem):
                self.multiply(kernel, group.problem, *matrices_of(group, (a, b, c)))
            return
        if kernel in TUNED and not problem.flops:
            return
        problem, a, b = self.depth_first(problem, a, b)
        if kernel in TUNED:
            self._tuned_handle().multiply(kernel, _pad(config), problem, (a, b, c))
            return
        if problem.conjugate_a and not problem.transpose_a:
            a = conjugated(self._compiler, conjugate(a.layout), a)
        if problem.conjugate_b and not problem.transpose_b:
            b = conjugated(self._compiler, conjugate(b.layout), b)
        if problem.dtype == "float8_e4m3":
            self._multiply_float8(kernel, problem, a, b, c)
            return
        self._gemm(kernel, problem, a, b, c)

    def _gemm(self, kernel: str, problem: Problem, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix) -> None:
        mode = MODES[kernel][problem.dtype]
        m, n, k = (_padded(size, problem) for size in (problem.m, problem.n, problem.k))
        if max(m, n, k, problem.batch, *(x.layout.pitch for x in (a, b, c))) > LARGEST_SIZE:
            raise KernelUnavailable(f"{kernel} takes sizes up to {LARGEST_SIZE} here; use another kernel.")
        one, zero, _ = _scalars(mode.scalar.__name__)
        operations = (
            _operation(problem.transpose_b, conjugated=problem.conjugate_b),
            _operation(problem.transpose_a, conjugated=problem.conjugate_a),
        )
        first = (self._handle, *operations, n, m, k, one)
        types = mode.operand_type, mode.operand_type, mode.product_type
        last = mode.compute_type, cublas.CUBLAS_GEMM_DEFAULT
        if problem.batch == 1:
            places = [(x.address, t, x.layout.pitch) for x, t in zip((b, a, c), types, strict=True)]
            cublas.gemmEx(*first, *places[0], *places[1], zero, *places[2], *last)
        else:
            strided = [(x.address, t, x.layout.pitch, x.layout.stride) for x, t in zip((b, a, c), types, strict=True)]
            zero_and_c = (zero, *strided[2], problem.batch)
            cublas.gemmStridedBatchedEx(*first, *strided[0], *strided[1], *zero_and_c, *last)

    @property
    def lt(self) -> CublasLt:
        """Raises KernelUnavailable."""
        if self._lt is None:
            self._lt = CublasLt()
        return self._lt

    @property
    def blocks(self) -> BlockScaledCublas:
        """Raises KernelUnavailable."""
        if self._blocks is None:
            self._blocks = BlockScaledCublas(self._compiler, self.lt, self.depth_first)
        return self._blocks

    def _tuned_handle(self) -> TunedCublas:
        if self._tuned is None:
            self._tuned = TunedCublas(self._compiler, self._by_default)
        return self._tuned

    def _by_default(self, kernel: str, problem: Problem, matrices: Matrices) -> None:
        self.multiply(kernel, problem, *matrices)

    def _multiply_float8(
        self, kernel: str, problem: Problem, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix
    ) -> None:
        m, n, k = (_padded(size, problem) for size in (problem.m, problem.n, problem.k))
        pitches = a.layout.pitch, b.layout.pitch, c.layout.pitch
        strides = a.layout.stride, b.layout.stride, c.layout.stride
        product = LtProduct(m, n, k, problem.batch, pitches, strides, fast=kernel == FAST_FLOAT8)
        self.lt.multiply(product, (a.address, b.address, c.address))

    def depth_first(
        self, problem: Problem, a: DeviceMatrix, b: DeviceMatrix
    ) -> tuple[Problem, DeviceMatrix, DeviceMatrix]:
        """The product of the function of this name, with its operands: B transposed where it is not contiguous along
        k, A too."""
        if problem.dtype not in IN_GROUPS:
            return problem, a, b
        transposed_a = self._transposed(a) if problem.transpose_a else a
        transposed_b = b if problem.transpose_b else self._transposed(b)
        return _depth_first(problem), transposed_a, transposed_b

    def _transposed(self, matrix: DeviceMatrix) -> DeviceMatrix:
        copy = allocate(transposed_layout(matrix.layout, in_groups=True))
        transpose(self._transpose, matrix, copy)
        return copy


@cache
def _scalars(kind: str) -> tuple[int, int, Array]:
    """The addresses of 1 and 0, and the array that they are in, which is kept with them."""
    one_and_zero = np.array([1, 0], kind)
    place = int(one_and_zero.ctypes.data)
    return place, place + one_and_zero.itemsize, one_and_zero


def _depth_first(problem: Problem) -> Problem:
    """The same product with both operands contiguous along k, where elements have a byte.

    Only so do cuBLAS's tensor-core kernels for them apply, and 8-bit floats have no others. On an H200, 8192³ of int8
    ran at 1471 TOPS that way and at 127 as A·B lies row-major, where some sizes were refused besides (cuBLAS 13.1).
    """
    return replace(problem, transpose_a=False, transpose_b=True) if problem.dtype in IN_GROUPS else problem


def _padded(size: int, problem: Problem) -> int:
    """Elements of a byte go by groups; the layout has room for them, and zeros in it."""
    return in_groups(size) if problem.dtype in IN_GROUPS else size


def _pad(config: TileConfig) -> int:
    """What sizes may be padded to multiples of."""
    return config.get("pad", MAX_PAD)


def _operation(transposed: bool, *, conjugated: bool) -> int:
    """The library conjugates transposes alone."""
    if not transposed:
        return int(cublas.CUBLAS_OP_N)
    return int(cublas.CUBLAS_OP_C if conjugated else cublas.CUBLAS_OP_T)
