"""cublasLt, the newer interface of cuBLAS, which CuPy has no binding for: the few functions needed, by ctypes. It alone
has products of 8-bit floats, which are here.

Names and numbers are those of cublasLt.h (cuBLAS documentation, "Using the cublasLt API"). The library is column-major;
an operand whose rows lie along k here is, to it, a matrix whose columns do.
"""

from __future__ import annotations

import ctypes
import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import cupy

from jobs.errors import DeviceFault, KernelUnavailable
from worker.cuda.memory import DeviceMatrix

LIBRARIES = ("libcublasLt.so.13", "libcublasLt.so.12")
FLOAT8_E4M3, FLOAT32, COMPUTE_FLOAT32 = 28, 0, 68
TRANSPOSE_FIRST, FAST_ACCUMULATION = 3, 25  # attributes of a product
BATCH_COUNT, BATCH_STRIDE = 5, 6  # of a matrix
WORKSPACE = 1  # of what is looked for
TRANSPOSED = 1
WORKSPACE_BYTES = 32 << 20  # what NVIDIA recommends for Hopper
KEPT = 64  # products that are known already


class Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass(frozen=True, slots=True)
class LtProduct:
    """C (rows×columns) = A·Bᵀ, `depth` numbers of each operand's row; pitches and strides in elements, 0 for the stride
    of a matrix that serves the whole batch. All is a multiple of 16."""

    rows: int
    columns: int
    depth: int
    batch: int
    pitches: tuple[int, int, int]  # of A, B and C
    strides: tuple[int, int, int]
    fast: bool  # sums stay in the tensor cores, where they have 14 bits


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the library made of a product: its description, its three matrices (B, A, C), and how it is computed."""

    product: Any
    matrices: tuple[Any, Any, Any]
    found: Found


class LtHandle:
    """The library with a handle on the current device. For use by one thread."""

    def __init__(self) -> None:
        self.library = _library()
        self.handle = ctypes.c_void_p()
        self.call("cublasLtCreate", ctypes.byref(self.handle))

    def set(self, kind: str, target: Any, attribute: int, value: Any) -> None:
        """An attribute of what the library made, a ctypes value. Raises DeviceFault."""
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self.call(f"cublasLt{kind}SetAttribute", target, attribute, ctypes.byref(value), size)

    def call(self, function: str, *arguments: Any) -> None:
        """Raises DeviceFault where the function fails."""
        status = getattr(self.library, function)(*arguments)
        if status:
            raise DeviceFault(f"{function} failed with status {status}; report this.")


class CublasLt(LtHandle):
    """Products of 8-bit floats. For use by one thread."""

    def __init__(self) -> None:
        super().__init__()
        self._plans: OrderedDict[LtProduct, _Plan] = OrderedDict()

    def multiply(self, product: LtProduct, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix) -> None:
        """Puts the product on the current stream. Raises KernelUnavailable, DeviceFault."""
        plan = self._plan(product)
        one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        workspace = cupy.cuda.alloc(max(plan.found.workspace_bytes, 1))  # reused by what is next on this stream
        address_b, address_a, address_c = (ctypes.c_void_p(each.address) for each in (b, a, c))
        of_b, of_a, of_c = plan.matrices
        self.call(
            "cublasLtMatmul",
            self.handle,
            plan.product,
            ctypes.byref(one),
            *(address_b, of_b, address_a, of_a),
            ctypes.byref(zero),
            *(address_c, of_c, address_c, of_c),
            ctypes.byref(plan.found.algorithm),
            ctypes.c_void_p(workspace.ptr),
            ctypes.c_size_t(plan.found.workspace_bytes),
            ctypes.c_void_p(cupy.cuda.get_current_stream().ptr),
        )

    def _plan(self, product: LtProduct) -> _Plan:
        plan = self._plans.pop(product, None) or self._planned(product)
        self._plans[product] = plan
        if len(self._plans) > KEPT:
            self._forget(self._plans.popitem(last=False)[1])
        return plan

    def _planned(self, product: LtProduct) -> _Plan:
        description = ctypes.c_void_p()
        self.call("cublasLtMatmulDescCreate", ctypes.byref(description), COMPUTE_FLOAT32, FLOAT32)
        self.set("MatmulDesc", description, TRANSPOSE_FIRST, ctypes.c_int32(TRANSPOSED))
        self.set("MatmulDesc", description, FAST_ACCUMULATION, ctypes.c_int8(product.fast))
        m, n, k = product.rows, product.columns, product.depth
        shapes = ((FLOAT8_E4M3, k, n, 1), (FLOAT8_E4M3, k, m, 0), (FLOAT32, n, m, 2))
        of_b, of_a, of_c = (self._matrix(product, *shape) for shape in shapes)
        matrices = (of_b, of_a, of_c)
        return _Plan(description, matrices, self._found(product, description, matrices))

    def _matrix(self, product: LtProduct, element_type: int, rows: int, columns: int, which: int) -> Any:
        """As the library sees it; `which` of A, B and C it is."""
        layout, pitch = ctypes.c_void_p(), ctypes.c_int64(product.pitches[which])
        sizes = ctypes.c_uint64(rows), ctypes.c_uint64(columns), pitch
        self.call("cublasLtMatrixLayoutCreate", ctypes.byref(layout), element_type, *sizes)
        self.set("MatrixLayout", layout, BATCH_COUNT, ctypes.c_int32(product.batch))
        self.set("MatrixLayout", layout, BATCH_STRIDE, ctypes.c_int64(product.strides[which]))
        return layout

    def _found(self, product: LtProduct, description: Any, matrices: tuple[Any, Any, Any]) -> Found:
        """The way that the library thinks best. Raises KernelUnavailable where it has none."""
        wanted, found, count = ctypes.c_void_p(), Found(), ctypes.c_int()
        self.call("cublasLtMatmulPreferenceCreate", ctypes.byref(wanted))
        self.set("MatmulPreference", wanted, WORKSPACE, ctypes.c_uint64(WORKSPACE_BYTES))
        results = ctypes.byref(found), ctypes.byref(count)
        status = self.library.cublasLtMatmulAlgoGetHeuristic(
            self.handle, description, *matrices, matrices[2], wanted, 1, *results
        )
        self.call("cublasLtMatmulPreferenceDestroy", wanted)
        if status or not count.value:
            raise KernelUnavailable(f"cublasLt has no way to multiply {product} here (status {status}).")
        return found

    def _forget(self, plan: _Plan) -> None:
        self.call("cublasLtMatmulDescDestroy", plan.product)
        for matrix in plan.matrices:
            self.call("cublasLtMatrixLayoutDestroy", matrix)


def _library() -> Any:
    """The one that came with CuPy's cuBLAS into this process. Raises KernelUnavailable."""
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:
            continue
    raise KernelUnavailable(f"{' and '.join(LIBRARIES)} are missing, which multiply 8-bit floats; use another kernel.")
