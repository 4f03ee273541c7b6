"""cuBLASMp, NVIDIA's library for matrices that lie in parts on several GPUs: the few functions needed, by ctypes.

Names and numbers are those of cublasmp.h, of release 0.10. The library is column-major, so C = A·B is asked for
as Cᵀ = Bᵀ·Aᵀ, as in `cublas.py`. A part has whole columns of blocks, so nothing is cyclic; where
parts lie is in `worker/cuda/from_host/parts.py`. With a workspace that is registered with NCCL, the library multiplies
what it has of A while the rest is on its way.
"""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from typing import Any, NamedTuple

from jobs.errors import DeviceFault, KernelUnavailable, OutOfDeviceMemory
from kernels.model.numerics import DTypeName
from worker.cuda.library import nccl
from worker.cuda.library.shared_objects import shared_object

NAMES = ("libcublasmp.so.0",)
OLDEST = 1000  # release 0.10, as the library counts: the first with which one process may have several GPUs
BY_COLUMNS, BY_ROWS = 0, 1  # cublasMpGridLayout_t: how ranks are counted in a grid
NO_TRANSPOSE, TRANSPOSE = 0, 1  # cublasOperation_t
COMPUTE_32F, COMPUTE_64F = 68, 70  # cublasComputeType_t
# cublasMpMatmulAlgoType_t, and no other: the library is never left to choose one with multicast, which some hosts
# switch off; and it refuses the atomic one for such parts.
SPLIT_P2P, NO_OVERLAP = 1, 5
OF_LEFT, OF_RIGHT, ALGORITHM = 0, 1, 3  # cublasMpMatmulDescriptorAttribute_t: TRANSA, TRANSB, ALGO_TYPE
# cublasMpStatus_t; not served: invalid value, architecture mismatch, not supported.
NOT_ALLOCATED, NOT_SUPPORTED, NOT_SERVED = 2, 7, (3, 4, 7)
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
        self._rank = rank
        self._is_registered = False
        with ExitStack() as made:
            matrices = [
                (ctypes.c_void_p(each.address), FIRST, FIRST, rank.describe(each.matrix, data, made))
                for each in (left, right, out)
            ]
            self._operation = rank.operation(compute, made)
            for attribute, operand in ((OF_LEFT, left), (OF_RIGHT, right)):
                self._set(attribute, TRANSPOSE if operand.transposed else NO_TRANSPOSE)
            self._scalars = scalar(1), scalar(0)
            one, zero = map(ctypes.byref, self._scalars)
            sizes = (ctypes.c_int64(each) for each in (out.matrix.rows, out.matrix.columns, depth))
            added_and_out = *matrices[2], *matrices[2]
            self._asked = (self._operation, *sizes, one, *matrices[0], *matrices[1], zero, *added_and_out)
            needs = [self._needed_by(algorithm) for algorithm in (NO_OVERLAP, SPLIT_P2P)]
            self._device_bytes, self._host_bytes = (ctypes.c_size_t(max(each)) for each in zip(*needs, strict=True))
            self._made = made.pop_all()

    @property
    def workspace_bytes(self) -> tuple[int, int]:
        """Sizes of the workspace on the device and on the host."""
        return self._device_bytes.value, self._host_bytes.value

    def register(self, on_device: int) -> None:
        """Lets the GPUs write to each other's workspace, of which this is the one on the device, from NCCL. Where the
        library cannot do that, A is gathered before it is multiplied. All ranks do."""
        self._is_registered = self._rank.register(on_device, self._device_bytes)
        if not self._is_registered:
            self._set(ALGORITHM, NO_OVERLAP)

    def deregister(self, on_device: int) -> None:
        """Before that memory is freed. All ranks do."""
        if self._is_registered:
            self._rank.deregister(on_device)

    def launch(self, on_device: int, on_host: int) -> None:
        """Puts it on the rank's stream, with the addresses of that workspace. All ranks do."""
        workspace = (ctypes.c_void_p(on_device), self._device_bytes, ctypes.c_void_p(on_host), self._host_bytes)
        self._rank.call("cublasMpMatmul", self._rank.handle, *self._asked, *workspace)

    def close(self) -> None:
        self._made.close()

    def _needed_by(self, algorithm: int) -> tuple[int, int]:
        self._set(ALGORITHM, algorithm)
        on_device, on_host = ctypes.c_size_t(), ctypes.c_size_t()
        needed = ctypes.byref(on_device), ctypes.byref(on_host)
        self._rank.call("cublasMpMatmul_bufferSize", self._rank.handle, *self._asked, *needed)
        return on_device.value, on_host.value

    def _set(self, attribute: int, number: int) -> None:
        value = ctypes.c_int(number)
        where = ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))
        self._rank.call("cublasMpMatmulDescriptorSetAttribute", self._operation, attribute, *where)


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

    def describe(self, matrix: Distributed, data: int, made: ExitStack) -> ctypes.c_void_p:
        """The matrix's descriptor, destroyed by `made`; the first block is on the first rank."""
        description, block = ctypes.c_void_p(), matrix.block
        sizes = (ctypes.c_int64(each) for each in (matrix.rows, matrix.columns, *block, 0, 0, block[0]))
        grid = self._along_rows if matrix.by_rows else self._along_columns
        self.call("cublasMpMatrixDescriptorCreate", *sizes, data, grid, ctypes.byref(description))
        made.callback(self.call, "cublasMpMatrixDescriptorDestroy", description)
        return description

    def operation(self, compute: int, made: ExitStack) -> ctypes.c_void_p:
        """The descriptor of a product, destroyed by `made`."""
        operation = ctypes.c_void_p()
        self.call("cublasMpMatmulDescriptorCreate", ctypes.byref(operation), compute)
        made.callback(self.call, "cublasMpMatmulDescriptorDestroy", operation)
        return operation

    def register(self, address: int, size: ctypes.c_size_t) -> bool:
        """False where it is not supported; all ranks get that answer, before they wait for each other. On the grid of
        the product: a workspace registered on another one is not found."""
        status: int = self._library.cublasMpBufferRegister(self._along_rows, ctypes.c_void_p(address), size)
        if status != NOT_SUPPORTED:
            self._raise_for("cublasMpBufferRegister", status)
        return status != NOT_SUPPORTED

    def deregister(self, address: int) -> None:
        self.call("cublasMpBufferDeregister", self._along_rows, ctypes.c_void_p(address))

    def call(self, function: str, *arguments: Any) -> None:
        self._raise_for(function, getattr(self._library, function)(*arguments))

    def _raise_for(self, function: str, status: int) -> None:
        if status == NOT_ALLOCATED:
            raise OutOfDeviceMemory
        if status in NOT_SERVED:
            raise KernelUnavailable(f"cuBLASMp does not multiply such operands here ({function}: {status}).")
        if status:
            raise DeviceFault(f"{function} failed with status {status}; its worker starts again.")


def version() -> str | None:
    """The library's version; None if it, or what it needs, is not installed, or is too old."""
    found = _found()
    return None if found is None else f"{found[1] // 10000}.{found[1] // 100 % 100}.{found[1] % 100}"


def library() -> Any:
    """Raises KernelUnavailable."""
    if (found := _found()) is None:
        raise KernelUnavailable(
            "This worker has no cuBLASMp of release 0.10 or newer: install the extra `cublasmp`, or use another kernel."
        )
    return found[0]


def _found() -> tuple[Any, int] | None:
    """The library, which needs NCCL, and its release."""
    number = ctypes.c_int()
    if nccl.version() is None or (found := shared_object(*NAMES)) is None:
        return None
    if found.cublasMpGetVersion(ctypes.byref(number)) or number.value < OLDEST:
        return None
    return found, number.value
