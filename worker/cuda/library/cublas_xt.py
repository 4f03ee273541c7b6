"""cuBLASXt, NVIDIA's library for products of matrices in the host's memory, which it cuts into tiles over the GPUs of a
process: the few functions needed, by ctypes.

Names are those of cublasXt.h. The library is column-major, so C = A·B is asked for as Cᵀ = Bᵀ·Aᵀ. It is fast with
page-locked memory alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes.util import find_library
from typing import Any

from jobs.errors import DeviceFault, KernelUnavailable, OutOfDeviceMemory
from jobs.formats.elements import Array
from worker.cuda.library.shared_objects import shared_object

NO_TRANSPOSE, TRANSPOSE = 0, 1  # cublasOperation_t
NOT_ALLOCATED = 3  # cublasStatus_t
FUNCTIONS = {"float32": ("cublasXtSgemm", ctypes.c_float), "float64": ("cublasXtDgemm", ctypes.c_double)}
NAMES = ("libcublas.so.13", "libcublas.so.12", "libcublas.so")


class CublasXt:
    """`devices`: as this process numbers them. `block`: rows and columns of its tiles. For one thread. All raise
    KernelUnavailable, OutOfDeviceMemory, DeviceFault."""

    def __init__(self, devices: Sequence[int], block: int) -> None:
        self._library = _library()
        self._handle = ctypes.c_void_p()
        chosen = (ctypes.c_int * len(devices))(*devices)
        self._call("cublasXtCreate", ctypes.byref(self._handle))
        self._call("cublasXtDeviceSelect", self._handle, len(devices), chosen)
        self._call("cublasXtSetBlockDim", self._handle, block)

    def multiply(self, a: Array, b: Array, c: Array, *, transpose_a: bool = False, transpose_b: bool = False) -> None:
        """C = A·B, two-dimensional and row-major, as they are stored. Returns when it is done."""
        name, scalar = FUNCTIONS[str(c.dtype)]
        k = a.shape[0 if transpose_a else 1]
        one, zero = scalar(1), scalar(0)
        operations = (TRANSPOSE if each else NO_TRANSPOSE for each in (transpose_b, transpose_a))
        sizes = (ctypes.c_size_t(each) for each in (c.shape[1], c.shape[0], k))
        matrices = [(ctypes.c_void_p(each.ctypes.data), ctypes.c_size_t(each.shape[1])) for each in (b, a, c)]
        operands = (ctypes.byref(one), *matrices[0], *matrices[1], ctypes.byref(zero), *matrices[2])
        self._call(name, self._handle, *operations, *sizes, *operands)

    def close(self) -> None:
        self._call("cublasXtDestroy", self._handle)

    def _call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status == NOT_ALLOCATED:
            raise OutOfDeviceMemory("cuBLASXt found no room for its tiles; take a smaller `block`, or try later.")
        if status:
            raise DeviceFault(f"{function} failed with status {status}; its worker starts again.")


def _library() -> Any:
    if (found := shared_object(*NAMES, find_library("cublas") or "")) is None:
        raise KernelUnavailable("cuBLAS is not on this worker's path, so cuBLASXt is not either; use another kernel.")
    return found
