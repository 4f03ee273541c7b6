"""cuBLASXt: NVIDIA's library for products of matrices in the host's memory, cut into tiles over the GPUs of a process.

It is what ships with cuBLAS for this, so it is what products in tiles are measured beside. It knows float32 and
float64, wants page-locked memory, checks nothing, and cannot be stopped before its end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes.util import find_library
from functools import cache
from typing import Any

from jobs.errors import DeviceFault
from jobs.formats.elements import Array

NO_TRANSPOSE = 0  # cublasOperation_t
FUNCTIONS = {"float32": ("cublasXtSgemm", ctypes.c_float), "float64": ("cublasXtDgemm", ctypes.c_double)}
NAMES = ("libcublas.so.13", "libcublas.so.12", "libcublas.so")


class CublasXt:
    """`devices`: as this process numbers them. `block`: rows and columns of its tiles. For one thread."""

    def __init__(self, devices: Sequence[int], block: int) -> None:
        self._handle = ctypes.c_void_p()
        _checked(_library().cublasXtCreate(ctypes.byref(self._handle)))
        chosen = (ctypes.c_int * len(devices))(*devices)
        _checked(_library().cublasXtDeviceSelect(self._handle, len(devices), chosen))
        _checked(_library().cublasXtSetBlockDim(self._handle, block))

    def multiply(self, a: Array, b: Array, c: Array) -> None:
        """C = A·B, two-dimensional and row-major: for the library, which is column-major, Cᵀ = Bᵀ·Aᵀ. Waits for it."""
        name, scalar = FUNCTIONS[str(c.dtype)]
        (m, k), n = a.shape, b.shape[1]
        one, zero = scalar(1), scalar(0)
        sizes = (ctypes.c_size_t(each) for each in (n, m, k))
        first = (self._handle, NO_TRANSPOSE, NO_TRANSPOSE, *sizes, ctypes.byref(one))
        operands = (_address(b), ctypes.c_size_t(n), _address(a), ctypes.c_size_t(k))
        product = (ctypes.byref(zero), _address(c), ctypes.c_size_t(n))
        _checked(getattr(_library(), name)(*first, *operands, *product))

    def close(self) -> None:
        _checked(_library().cublasXtDestroy(self._handle))


def _address(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@cache
def _library() -> Any:
    for name in (*NAMES, find_library("cublas") or ""):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise DeviceFault("cuBLAS is not on this machine, so cuBLASXt is not either.")


def _checked(status: int) -> None:
    if status:
        raise DeviceFault(f"cuBLASXt reported error {status}.")
