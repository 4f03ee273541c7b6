"""cuBLAS at its best: of the ways to multiply that cublasLt's heuristic proposes, on the sizes as they are and padded
with zeros, the fastest at a problem's first use is kept for the next.

The library is column-major, so C = A·B is asked for as Cᵀ = Bᵀ·Aᵀ: operands change places, and nothing is copied. Names
and numbers are those of cublasLt.h (cuBLAS documentation, "Using the cublasLt API").
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from typing import Any

import cupy

from jobs.errors import KernelUnavailable
from kernels.model.numerics import DTypeName, Problem
from worker.cuda.compile import Compiler
from worker.cuda.library.cublas_lt import (
    BATCH_COUNT,
    BATCH_STRIDE,
    COMPUTE_FLOAT32,
    FLOAT32,
    WORKSPACE,
    WORKSPACE_BYTES,
    Found,
    LtHandle,
)
from worker.cuda.library.trial import Trial
from worker.cuda.memory import Matrices
from worker.cuda.pitch import Layout, in_groups

PROPOSED = 8  # ways, of the sizes as they are and of the padded ones
KEPT = 4096  # problems
TRANSPOSE_FIRST, TRANSPOSE_SECOND, TRANSPOSED = 3, 4, 1  # attributes of a product
# Of what is looked for: where partial sums may be kept. In place they have the product's type, which may be 16 bits.
REDUCTIONS, IN_PLACE, IN_COMPUTE_TYPE = 3, 1, 2
FLOAT64, FLOAT16, INT8, INT32, BFLOAT16 = 1, 2, 3, 10, 14  # cudaDataType_t
COMPUTE_FLOAT64, COMPUTE_INT32, COMPUTE_FAST_TF32 = 70, 72, 77  # cublasComputeType_t


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The library's numbers for element types and for how they are multiplied."""

    element: int
    compute: int
    scalar: int
    number: type[ctypes.c_float] | type[ctypes.c_double] | type[ctypes.c_int32] = ctypes.c_float
    result: int | None = None  # elements of the product, where they are others than those of the operands

    @property
    def reductions(self) -> int:
        return IN_COMPUTE_TYPE | (IN_PLACE if self.element in (FLOAT32, FLOAT64, INT8) else 0)


ARITHMETIC: Mapping[tuple[str, DTypeName], Arithmetic] = {  # by kernel of the catalogue and element type
    ("cublas_tuned", "bfloat16"): Arithmetic(BFLOAT16, COMPUTE_FLOAT32, FLOAT32),
    ("cublas_tuned", "float16"): Arithmetic(FLOAT16, COMPUTE_FLOAT32, FLOAT32),
    ("cublas_tuned", "float32"): Arithmetic(FLOAT32, COMPUTE_FLOAT32, FLOAT32),
    ("cublas_tuned", "float64"): Arithmetic(FLOAT64, COMPUTE_FLOAT64, FLOAT64, ctypes.c_double),
    ("cublas_tuned", "int8"): Arithmetic(INT8, COMPUTE_INT32, INT32, ctypes.c_int32, INT32),
    ("cublas_tf32_tuned", "float32"): Arithmetic(FLOAT32, COMPUTE_FAST_TF32, FLOAT32),
}
TUNED: Mapping[str, str] = {"cublas_tuned": "cublas", "cublas_tf32_tuned": "cublas_tf32"}  # by the library's own choice
Launch = Callable[[Matrices], None]


@dataclass(frozen=True, slots=True)
class Way:
    """A product as the library was told of it, and one of its proposals. Good as long as its handle."""

    arithmetic: Arithmetic
    product: Any
    matrices: tuple[Any, Any, Any]  # B, A and C
    found: Found


class TunedCublas(LtHandle):
    """A handle on the current device. For use by one thread. What it tells the library is kept for good."""

    def __init__(self, compiler: Compiler, by_default: Callable[[str, Problem, Matrices], None]) -> None:
        """`by_default` puts a product on the current stream by a kernel that the library chooses."""
        super().__init__()
        self._by_default = by_default
        self._trial = Trial(compiler)
        self._fastest: OrderedDict[tuple[str, int, Problem, tuple[Layout, ...]], Launch] = OrderedDict()
        self._tuned: OrderedDict[tuple[str, int, Problem], None] = OrderedDict()

    def is_tuned(self, kernel: str, pad: int, problem: Problem) -> bool:
        """Whether its ways have been tried. For any thread."""
        return (kernel, pad, problem) in self._tuned

    def tune(self, kernel: str, pad: int, problem: Problem, matrices: Matrices) -> None:
        """Tries the ways to make this product, which is there when this returns; nothing where that was done. Raises
        KernelUnavailable, DeviceFault."""
        key = kernel, pad, problem, tuple(each.layout for each in matrices)
        if (known := self._fastest.pop(key, None)) is None:
            ways: list[Launch] = [partial(self._by_default, TUNED[kernel], problem)]
            ways += [partial(self.launch, way) for way in self.ways(kernel, pad, problem, matrices)]
            known = ways[self._trial.fastest([partial(way, matrices) for way in ways])]
        self._fastest[key] = known
        self._tuned[key[:3]] = None
        for kept in (self._fastest, self._tuned):
            if len(kept) > KEPT:
                kept.popitem(last=False)

    def multiply(self, kernel: str, pad: int, problem: Problem, matrices: Matrices) -> None:
        """Puts the product on the current stream, after a trial at its first use. Raises KernelUnavailable,
        DeviceFault."""
        key = kernel, pad, problem, tuple(each.layout for each in matrices)
        if key not in self._fastest:
            self.tune(kernel, pad, problem, matrices)
        self._fastest[key](matrices)

    def launch(self, way: Way, matrices: Matrices) -> None:
        """Puts the product on the current stream. Raises KernelUnavailable where the library refuses."""
        a, b, c = (ctypes.c_void_p(each.address) for each in matrices)
        of_b, of_a, of_c = way.matrices
        one, zero = way.arithmetic.number(1), way.arithmetic.number(0)
        workspace = cupy.cuda.alloc(max(way.found.workspace_bytes, 1))  # reused by what is next on this stream
        status = self.library.cublasLtMatmul(
            *(self.handle, way.product, ctypes.byref(one), b, of_b, a, of_a, ctypes.byref(zero), c, of_c, c, of_c),
            *(ctypes.byref(way.found.algorithm), ctypes.c_void_p(workspace.ptr)),
            *(ctypes.c_size_t(way.found.workspace_bytes), ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)),
        )
        if status:
            raise KernelUnavailable(f"cublasLt refused a product that it proposed (status {status}).")

    def ways(self, kernel: str, pad: int, problem: Problem, matrices: Matrices) -> Iterator[Way]:
        """The library's proposals, best first by its own estimate, alternating between padded sizes, if there is room,
        and the original sizes. Matrices of 1-byte elements have room for whole groups, and no other sizes.
        """
        sizes = _sizes(pad, [each.layout for each in matrices])
        proposed = [self._proposed(ARITHMETIC[kernel, problem.dtype], problem, matrices, each) for each in sizes]
        return (way for way in chain.from_iterable(zip_longest(*proposed)) if way is not None)

    def _proposed(
        self, arithmetic: Arithmetic, problem: Problem, matrices: Matrices, sizes: Sequence[tuple[int, int]]
    ) -> list[Way]:
        product = ctypes.c_void_p()
        self.call("cublasLtMatmulDescCreate", ctypes.byref(product), arithmetic.compute, arithmetic.scalar)
        if problem.transpose_b:
            self.set("MatmulDesc", product, TRANSPOSE_FIRST, ctypes.c_int32(TRANSPOSED))
        if problem.transpose_a:
            self.set("MatmulDesc", product, TRANSPOSE_SECOND, ctypes.c_int32(TRANSPOSED))
        elements = arithmetic.element, arithmetic.element, arithmetic.result or arithmetic.element
        a, b, c = (
            self._described(element, problem.batch, each.layout, size)
            for element, each, size in zip(elements, matrices, sizes, strict=True)
        )
        preference, found, count = ctypes.c_void_p(), (Found * PROPOSED)(), ctypes.c_int()
        self.call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        self.set("MatmulPreference", preference, WORKSPACE, ctypes.c_uint64(WORKSPACE_BYTES))
        self.set("MatmulPreference", preference, REDUCTIONS, ctypes.c_uint32(arithmetic.reductions))
        status = self.library.cublasLtMatmulAlgoGetHeuristic(
            self.handle, product, b, a, c, c, preference, PROPOSED, found, ctypes.byref(count)
        )
        self.call("cublasLtMatmulPreferenceDestroy", preference)
        usable = [] if status else [each for each in found[: count.value] if each.state == 0]
        return [Way(arithmetic, product, (b, a, c), each) for each in usable]

    def _described(self, element: int, batch: int, layout: Layout, size: tuple[int, int]) -> Any:
        """A matrix as the library sees it: its columns are our rows."""
        description, (rows, columns) = ctypes.c_void_p(), size
        sizes = ctypes.c_uint64(columns), ctypes.c_uint64(rows), ctypes.c_int64(layout.pitch)
        self.call("cublasLtMatrixLayoutCreate", ctypes.byref(description), element, *sizes)
        self.set("MatrixLayout", description, BATCH_COUNT, ctypes.c_int32(batch))
        self.set("MatrixLayout", description, BATCH_STRIDE, ctypes.c_int64(layout.stride))
        return description


def _sizes(pad: int, layouts: Sequence[Layout]) -> list[list[tuple[int, int]]]:
    """Rows and columns of A, B and C that the library may be told, those that are expected to be faster first."""
    if any(each.in_groups for each in layouts):
        return [[(each.kept_rows, in_groups(each.columns)) for each in layouts]]
    stored = [(each.rows, each.columns) for each in layouts]
    padded = [each.padded(pad) for each in layouts]
    known = [each for each in padded if each is not None]
    return [known, stored] if len(known) == len(padded) and padded != stored else [stored]
