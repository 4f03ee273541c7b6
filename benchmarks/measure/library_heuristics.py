"""cuBLAS by cublasLt: the best of the ways to multiply that its heuristic proposes, for plain row-major products.

The library is column-major, so C = A·B is asked for as Cᵀ = Bᵀ·Aᵀ: operands change places, and nothing is copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cupy

from kernels.model.numerics import Problem
from worker.cuda.bench.operands import OperandSet
from worker.cuda.cublas_lt import COMPUTE_FLOAT32, FLOAT32, WORKSPACE, WORKSPACE_BYTES, CublasLt, Found
from worker.cuda.memory import DeviceMatrix

PROPOSED = 8
FLOAT64, FLOAT16, BFLOAT16 = 1, 2, 14  # cudaDataType_t
COMPUTE_FLOAT64, COMPUTE_FAST_TF32 = 70, 77  # cublasComputeType_t
Put = Callable[[OperandSet], None]  # puts one product on the current stream


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The library's numbers for element types and for how they are multiplied."""

    element: int
    compute: int
    scalar: int
    number: type[ctypes.c_float] | type[ctypes.c_double] = ctypes.c_float


ARITHMETIC: Mapping[tuple[str, str], Arithmetic] = {  # by kernel of the catalogue and element type
    ("cublas", "bfloat16"): Arithmetic(BFLOAT16, COMPUTE_FLOAT32, FLOAT32),
    ("cublas", "float16"): Arithmetic(FLOAT16, COMPUTE_FLOAT32, FLOAT32),
    ("cublas", "float32"): Arithmetic(FLOAT32, COMPUTE_FLOAT32, FLOAT32),
    ("cublas_tf32", "float32"): Arithmetic(FLOAT32, COMPUTE_FAST_TF32, FLOAT32),
    ("cublas", "float64"): Arithmetic(FLOAT64, COMPUTE_FLOAT64, FLOAT64, ctypes.c_double),
}


class Heuristics(CublasLt):
    """A handle on the current device. For use by one thread. What it describes is kept until the process ends."""

    def ways(self, kernel: str, problem: Problem, at: OperandSet) -> list[Put]:
        """At most PROPOSED, the one that the library thinks best first; for operands that lie as these do."""
        arithmetic, description = ARITHMETIC[kernel, problem.dtype], ctypes.c_void_p()
        self._call("cublasLtMatmulDescCreate", ctypes.byref(description), arithmetic.compute, arithmetic.scalar)
        m, n, k = problem.m, problem.n, problem.k
        shapes = ((at.b, n, k), (at.a, k, m), (at.c, n, m))
        matrices = tuple(self._layout(arithmetic, *shape) for shape in shapes)
        workspace = cupy.cuda.alloc(WORKSPACE_BYTES)
        proposed = self._proposed(description, matrices)
        return [self._put(arithmetic, description, matrices, each, workspace) for each in proposed]

    def _layout(self, arithmetic: Arithmetic, matrix: DeviceMatrix, rows: int, columns: int) -> Any:
        layout = ctypes.c_void_p()
        sizes = ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(matrix.layout.pitch)
        self._call("cublasLtMatrixLayoutCreate", ctypes.byref(layout), arithmetic.element, *sizes)
        return layout

    def _proposed(self, description: Any, matrices: tuple[Any, ...]) -> list[Found]:
        wanted, found, count = ctypes.c_void_p(), (Found * PROPOSED)(), ctypes.c_int()
        self._call("cublasLtMatmulPreferenceCreate", ctypes.byref(wanted))
        self._set("MatmulPreference", wanted, WORKSPACE, ctypes.c_uint64(WORKSPACE_BYTES))
        self._call(
            "cublasLtMatmulAlgoGetHeuristic",
            *(self._handle, description, *matrices, matrices[2], wanted),
            *(PROPOSED, found, ctypes.byref(count)),
        )
        self._call("cublasLtMatmulPreferenceDestroy", wanted)
        return [each for each in found[: count.value] if each.state == 0]

    def _put(
        self, arithmetic: Arithmetic, description: Any, matrices: tuple[Any, ...], found: Found, workspace: Any
    ) -> Put:
        one, zero = arithmetic.number(1.0), arithmetic.number(0.0)
        of_b, of_a, of_c = matrices

        def put(at: OperandSet) -> None:
            address_b, address_a, address_c = (ctypes.c_void_p(each.address) for each in (at.b, at.a, at.c))
            self._call(
                "cublasLtMatmul",
                *(self._handle, description, ctypes.byref(one), address_b, of_b, address_a, of_a),
                *(ctypes.byref(zero), address_c, of_c, address_c, of_c, ctypes.byref(found.algorithm)),
                *(ctypes.c_void_p(workspace.ptr), ctypes.c_size_t(WORKSPACE_BYTES)),
                ctypes.c_void_p(cupy.cuda.get_current_stream().ptr),
            )

        return put
