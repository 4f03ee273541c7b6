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

LIBRARIES = ("libcublasLt.so.13", "libcublasLt.so.12")
FLOAT8_E4M3, FLOAT32, COMPUTE_FLOAT32 = 28, 0, 68
TRANSPOSE_FIRST, FAST_ACCUMULATION = 3, 25  # attributes of a product
SCALES_OF_FIRST, SCALES_OF_SECOND, MODE_OF_FIRST, MODE_OF_SECOND = 17, 18, 31, 32  # likewise, of block scales
BY_VECTOR, BY_BLOCK = 4, 5  # modes: a scale for 128 steps of k in one line of an operand, or in 128 lines
BATCH_COUNT, BATCH_STRIDE = 5, 6  # of a matrix
WORKSPACE = 1  # of what is looked for
TRANSPOSED = 1
REFUSED = (7, 15)  # statuses: a value that is not valid, something that is not supported
WORKSPACE_BYTES = 32 << 20  # what NVIDIA recommends for Hopper
KEPT = 64  # products that are known already
NO_SCALES = 0, 0  # addresses


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
    fast: bool = False  # sums stay in the tensor cores, where they have 14 bits
    output: int = FLOAT32  # C's type
    modes: tuple[int, int] | None = None  # of scales of A and B, where these have blocks of them
    proposals: int = 1  # ways to multiply that the library is asked for


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the library made of a product: its description, its three matrices (B, A, C), and how it may be computed,
    what it thinks best first."""

    product: Any
    matrices: tuple[Any, Any, Any]
    found: tuple[Found, ...]


class LtHandle:
    """The library with a handle on the current device. For use by one thread."""

    def __init__(self) -> None:
        self.library = _library()
        self.handle = ctypes.c_void_p()
        self.call("cublasLtCreate", ctypes.byref(self.handle))

    @property
    def version(self) -> int:
        """The library's version number, such as 120901 for 12.9.1."""
        self.library.cublasLtGetVersion.restype = ctypes.c_size_t
        return int(self.library.cublasLtGetVersion())

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

    def ways(self, product: LtProduct, scales: tuple[int, int] = NO_SCALES) -> int:
        """The number of algorithms that the library offers for the product. Raises KernelUnavailable if there is none;
        DeviceFault."""
        return len(self._plan(product, scales).found)

    def multiply(
        self, product: LtProduct, addresses: tuple[int, int, int], scales: tuple[int, int] = NO_SCALES, way: int = 0
    ) -> None:
        """Puts the product on the current stream. `addresses`: of A, B and C; `scales`: likewise, of those of A and B.
        Raises KernelUnavailable, DeviceFault."""
        plan = self._plan(product, scales)
        found = plan.found[way]
        if product.modes is not None:
            self._point_to(plan.product, scales)
        one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        workspace = cupy.cuda.alloc(max(found.workspace_bytes, 1))  # reused by what is next on this stream
        address_a, address_b, address_c = map(ctypes.c_void_p, addresses)
        of_b, of_a, of_c = plan.matrices
        status = self.library.cublasLtMatmul(
            self.handle,
            plan.product,
            ctypes.byref(one),
            *(address_b, of_b, address_a, of_a),
            ctypes.byref(zero),
            *(address_c, of_c, address_c, of_c),
            ctypes.byref(found.algorithm),
            ctypes.c_void_p(workspace.ptr),
            ctypes.c_size_t(found.workspace_bytes),
            ctypes.c_void_p(cupy.cuda.get_current_stream().ptr),
        )
        if status in REFUSED:
            raise KernelUnavailable(f"cublasLt refused a product that it proposed (status {status}).")
        if status:
            raise DeviceFault(f"cublasLtMatmul failed with status {status}; report this.")

    def _point_to(self, description: Any, scales: tuple[int, int]) -> None:
        of_a, of_b = map(ctypes.c_uint64, scales)
        self.set("MatmulDesc", description, SCALES_OF_FIRST, of_b)
        self.set("MatmulDesc", description, SCALES_OF_SECOND, of_a)

    def _plan(self, product: LtProduct, scales: tuple[int, int]) -> _Plan:
        plan = self._plans.pop(product, None) or self._planned(product, scales)
        self._plans[product] = plan
        if len(self._plans) > KEPT:
            self._forget(self._plans.popitem(last=False)[1])
        return plan

    def _planned(self, product: LtProduct, scales: tuple[int, int]) -> _Plan:
        description = ctypes.c_void_p()
        self.call("cublasLtMatmulDescCreate", ctypes.byref(description), COMPUTE_FLOAT32, FLOAT32)
        self.set("MatmulDesc", description, TRANSPOSE_FIRST, ctypes.c_int32(TRANSPOSED))
        self.set("MatmulDesc", description, FAST_ACCUMULATION, ctypes.c_int8(product.fast))
        if product.modes is not None:
            of_a, of_b = map(ctypes.c_int32, product.modes)
            self.set("MatmulDesc", description, MODE_OF_FIRST, of_b)
            self.set("MatmulDesc", description, MODE_OF_SECOND, of_a)
            self._point_to(description, scales)
        m, n, k = product.rows, product.columns, product.depth
        shapes = ((FLOAT8_E4M3, k, n, 1), (FLOAT8_E4M3, k, m, 0), (product.output, n, m, 2))
        of_b, of_a, of_c = (self._matrix(product, *shape) for shape in shapes)
        matrices = (of_b, of_a, of_c)
        return _Plan(description, matrices, self._found(product, description, matrices))

    def _matrix(self, product: LtProduct, element_type: int, rows: int, columns: int, which: int) -> Any:
        """A matrix as the library describes it; `which` of A, B and C it is."""
        layout, pitch = ctypes.c_void_p(), ctypes.c_int64(product.pitches[which])
        sizes = ctypes.c_uint64(rows), ctypes.c_uint64(columns), pitch
        self.call("cublasLtMatrixLayoutCreate", ctypes.byref(layout), element_type, *sizes)
        self.set("MatrixLayout", layout, BATCH_COUNT, ctypes.c_int32(product.batch))
        self.set("MatrixLayout", layout, BATCH_STRIDE, ctypes.c_int64(product.strides[which]))
        return layout

    def _found(self, product: LtProduct, description: Any, matrices: tuple[Any, Any, Any]) -> tuple[Found, ...]:
        """The library's proposals, best first. Raises KernelUnavailable if it has none."""
        preference, found, count = ctypes.c_void_p(), (Found * product.proposals)(), ctypes.c_int()
        self.call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        self.set("MatmulPreference", preference, WORKSPACE, ctypes.c_uint64(WORKSPACE_BYTES))
        results = product.proposals, found, ctypes.byref(count)
        status = self.library.cublasLtMatmulAlgoGetHeuristic(
            self.handle, description, *matrices, matrices[2], preference, *results
        )
        self.call("cublasLtMatmulPreferenceDestroy", preference)
        usable = () if status else tuple(each for each in found[: count.value] if each.state == 0)
        if not usable:
            raise KernelUnavailable(f"cublasLt has no way to multiply {product} here (status {status}).")
        return usable

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
