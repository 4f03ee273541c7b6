"""cuBLAS's own grouped product, cublasGemmGroupedBatchedEx, by ctypes, as CuPy has no binding for it (cuBLAS
documentation, "cublas<t>GemmGroupedBatchedEx"). It is measured beside ours.

The library is column-major, so C = A·B is asked for as Cᵀ = Bᵀ·Aᵀ: operands change places, and nothing is copied.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import cupy
import numpy as np

from jobs.errors import DeviceFault, KernelUnavailable
from kernels.model.numerics import Problem
from worker.cuda.library.cublas import OWN_PRECISION
from worker.cuda.memory import DeviceMatrix

LIBRARIES = ("libcublas.so.13", "libcublas.so.12")
Own = tuple[Problem, DeviceMatrix, DeviceMatrix, DeviceMatrix]  # a group's product and its matrices


class Published:
    """The library's one call for products of a type, each with sizes of its own. Sizes are numbers on the host,
    addresses lie on the device."""

    def __init__(self, products: Sequence[Own]) -> None:
        problems = [own[0] for own in products]
        dtype, count = problems[0].dtype, len(products)
        mode = OWN_PRECISION[dtype]
        of_a, of_b, of_c = zip(*(own[1:] for own in products), strict=True)
        self._addresses = [_on_device([each.address for each in side]) for side in (of_b, of_a, of_c)]
        pitches = [_ints(each.layout.pitch for each in side) for side in (of_b, of_a, of_c)]
        operations = [_ints(int(getattr(p, f"transpose_{side}")) for p in problems) for side in "ba"]
        sizes = [_ints(getattr(p, side) for p in problems) for side in "nmk"]
        factors = [np.full(count, value, mode.scalar) for value in (1, 0)]
        to_b, to_a, to_c = (ctypes.c_void_p(each.data.ptr) for each in self._addresses)
        alpha, beta = (ctypes.c_void_p(each.ctypes.data) for each in factors)
        self._kept = factors
        self._arguments = (
            *(*operations, *sizes, alpha),
            *(to_b, mode.operand_type, pitches[0], to_a, mode.operand_type, pitches[1], beta),
            *(to_c, mode.product_type, pitches[2], count, _ints([1] * count), mode.compute_type),
        )
        self._handle = ctypes.c_void_p(cupy.cuda.device.get_cublas_handle())

    def put(self, stream: int) -> None:
        """Raises DeviceFault where the library refuses."""
        library = _library()
        status = library.cublasSetStream_v2(self._handle, ctypes.c_void_p(stream))
        status = status or library.cublasGemmGroupedBatchedEx(self._handle, *self._arguments)
        if status:
            raise DeviceFault(f"cuBLAS did not take a grouped product (error {status}); report this.")


def _ints(values: Any) -> Any:
    numbers = [*values]
    return (ctypes.c_int * len(numbers))(*numbers)


def _on_device(addresses: Sequence[int]) -> Any:
    return cupy.asarray(np.array(addresses, np.uint64))


@cache
def _library() -> ctypes.CDLL:
    """The library that CuPy has loaded."""
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:
            continue
    raise KernelUnavailable("cuBLAS is not loaded; install CuPy with its libraries.")
