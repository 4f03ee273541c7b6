"""cuBLASMp, NVIDIA's library for matrices that lie in parts on several GPUs: the few functions needed, by ctypes.

Names and numbers are those of cublasmp.h, of releases 0.7 to 0.10. The library is column-major, so C = A·B is asked for
as Cᵀ = Bᵀ·Aᵀ, as in `cublas.py`. A part has whole columns of blocks, so nothing is cyclic; where
parts lie is in `worker/cuda/from_host/parts.py`. Its workspace is not registered with NCCL: then the library gathers
first and multiplies next, and takes no algorithm that needs multicast.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, NamedTuple

from jobs.errors import DeviceFault, KernelUnavailable, OutOfDeviceMemory
from kernels.model.numerics import DTypeName
from worker.cuda.library import nccl
from worker.cuda.library.shared_objects import shared_object

NAMES = ("libcublasmp.so.0",)
NEEDED = ("libnvshmem_host.so.3",)  # by 0.7 alone
BY_COLUMNS, BY_ROWS = 0, 1  # cublasMpGridLayout_t: how ranks are counted in a grid
NO_TRANSPOSE, TRANSPOSE = 0, 1  # cublasOperation_t
COMPUTE_32F, COMPUTE_64F = 68, 70  # cublasComputeType_t
NOT_ALLOCATED, NOT_SERVED = 2, (3, 4, 7)  # cublasMpStatus_t: invalid value, architecture mismatch, not supported
FIRST = ctypes.c_int64(1)  # rows and columns are counted from 1
# cudaDataType, what is computed in, and the type of alpha and beta.
TYPES: dict[DTypeName, tuple[int, int, Any]] = {
    "float16": (2, COMPUTE_32F, ctypes.c_float),
    "bfloat16": (14, COMPUTE_32F, ctypes.c_float),
    "float32": (0, COMPUTE_32F, ctypes.c_float),
    "float64": (1, COMPUTE_64F, ctypes.c_double),
}


class Distributed(NamedTuple):
    """A matrix in equal parts, one on each GPU, as the library sees it: column-major. `by_rows`: cut along its rows. A
    block has all rows of a part."""

    rows: int
    columns: int
    block: tuple[int, int]
    by_rows: bool


class Operand(NamedTuple):
    matrix: Distributed
    transposed: bool
    address: int  # of this GPU's part


class MpProduct:
    """A product on one of the GPUs, described and not begun. It needs so much workspace on the device and on the
    host."""

    def __init__(
        self, rank: CublasMp, dtype: DTypeName, depth: int, left: Operand, right: Operand, out: Operand
    ) -> None:
        data, compute, scalar = TYPES[dtype]
        three = left, right, out
        self._rank = rank
        self._described = [rank.describe(each.matrix, data) for each in three]
        matrices = [
            (ctypes.c_void_p(each.address), FIRST, FIRST, description)
            for each, description in zip(three, self._described, strict=True)
        ]
        self._scalars = scalar(1), scalar(0)
        one, zero = map(ctypes.byref, self._scalars)
        operations = (TRANSPOSE if each.transposed else NO_TRANSPOSE for each in (left, right))
        sizes = (ctypes.c_int64(each) for each in (out.matrix.rows, out.matrix.columns, depth))
        self._asked = (*operations, *sizes, one, *matrices[0], *matrices[1], zero, *matrices[2], compute)
        self._device_bytes, self._host_bytes = ctypes.c_size_t(), ctypes.c_size_t()
        needed = ctypes.byref(self._device_bytes), ctypes.byref(self._host_bytes)
        rank.call("cublasMpGemm_bufferSize", rank.handle, *self._asked, *needed)

    @property
    def workspace_bytes(self) -> tuple[int, int]:
        """Sizes of the workspace on the device and on the host."""
        return self._device_bytes.value, self._host_bytes.value

    def launch(self, on_device: int, on_host: int) -> None:
        """Puts it on the rank's stream, with the addresses of that workspace. All ranks do."""
        workspace = (ctypes.c_void_p(on_device), self._device_bytes, ctypes.c_void_p(on_host), self._host_bytes)
        self._rank.call("cublasMpGemm", self._rank.handle, *self._asked, *workspace)

    def close(self) -> None:
        for description in self._described:
            self._rank.call("cublasMpMatrixDescriptorDestroy", description)


class CublasMp:
    """One of `ranks` GPUs, to be made and used with it as the current device, by all of them at once: each in a thread
    of its own. All raise KernelUnavailable, OutOfDeviceMemory, DeviceFault; what fails in the midst of what all do
    leaves the others waiting."""

    def __init__(self, communicator: ctypes.c_void_p, ranks: int, stream: int) -> None:
        self._library = library()
        self.handle = ctypes.c_void_p()
        self.call("cublasMpCreate", ctypes.byref(self.handle), ctypes.c_void_p(stream))
        self._along_rows = self._grid(ranks, 1, BY_COLUMNS, communicator)
        self._along_columns = self._grid(1, ranks, BY_ROWS, communicator)

    def _grid(self, rows: int, columns: int, counted: int, communicator: ctypes.c_void_p) -> ctypes.c_void_p:
        grid, shape = ctypes.c_void_p(), (ctypes.c_int64(rows), ctypes.c_int64(columns))
        self.call("cublasMpGridCreate", *shape, counted, communicator, ctypes.byref(grid))
        return grid

    def describe(self, matrix: Distributed, data: int) -> ctypes.c_void_p:
        """The matrix's descriptor; the first block is on the first rank."""
        description, block = ctypes.c_void_p(), matrix.block
        sizes = (ctypes.c_int64(each) for each in (matrix.rows, matrix.columns, *block, 0, 0, block[0]))
        grid = self._along_rows if matrix.by_rows else self._along_columns
        self.call("cublasMpMatrixDescriptorCreate", *sizes, data, grid, ctypes.byref(description))
        return description

    def call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status == NOT_ALLOCATED:
            raise OutOfDeviceMemory
        if status in NOT_SERVED:
            raise KernelUnavailable(f"cuBLASMp does not multiply such operands here ({function}: {status}).")
        if status:
            raise DeviceFault(f"{function} failed with status {status}; its worker starts again.")


def version() -> str | None:
    """The library's version; None if it, or what it needs, is not installed."""
    found, number = _found(), ctypes.c_int()
    if found is None or found.cublasMpGetVersion(ctypes.byref(number)):
        return None
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


def library() -> Any:
    """Raises KernelUnavailable."""
    if (found := _found()) is None:
        raise KernelUnavailable("cuBLASMp is not installed on this worker; use another kernel.")
    return found


def _found() -> Any | None:
    """0.7 would have NVSHMEM join the GPUs, which has room for one in a process."""
    os.environ.setdefault("CUBLASMP_DISABLE_NVSHMEM", "1")
    if nccl.version() is None:
        return None
    shared_object(*NEEDED)
    return shared_object(*NAMES)
