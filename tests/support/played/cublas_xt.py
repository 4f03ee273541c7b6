"""In place of libcublas, at the boundary to ctypes: cuBLASXt."""

from __future__ import annotations

import ctypes
from threading import Event
from typing import Any

import numpy as np

from jobs.formats.elements import Array


class PlayedXt:
    """cuBLASXt, which computes as BLAS would: column by column. `is_released`: until then a product is not done."""

    def __init__(self, is_released: Event | None = None) -> None:
        self.said: list[Any] = []
        self.status = self.products = 0
        self._is_released = is_released

    def cublasXtCreate(self, handle: Any) -> int:
        handle._obj.value = 77
        return self.status

    def cublasXtDeviceSelect(self, handle: Any, count: int, devices: Any) -> int:
        self.said.append((handle.value, list(devices[:count])))
        return 0

    def cublasXtSetBlockDim(self, handle: Any, block: int) -> int:
        self.said.append(block)
        return 0

    def cublasXtDestroy(self, handle: Any) -> int:
        self.said.append("end")
        return 0

    def cublasXtSgemm(self, *arguments: Any) -> int:
        return self._gemm(np.float32, *arguments)

    def cublasXtDgemm(self, *arguments: Any) -> int:
        return self._gemm(np.float64, *arguments)

    def _gemm(self, dtype: Any, handle: Any, of_a: int, of_b: int, *more: Any) -> int:
        m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = more
        assert (alpha._obj.value, beta._obj.value) == (1.0, 0.0) and {of_a, of_b} <= {0, 1}
        first = columns(a, lda, k, m, dtype).T if of_a else columns(a, lda, m, k, dtype)
        second = columns(b, ldb, n, k, dtype).T if of_b else columns(b, ldb, k, n, dtype)
        columns(c, ldc, m, n, dtype)[:] = first @ second
        self.products += 1
        if self._is_released is not None:
            self._is_released.wait()
        return self.status


def columns(address: Any, leading: Any, rows: Any, count: Any, dtype: Any) -> Array:
    """A matrix as BLAS takes it."""
    elements = leading.value * count.value
    raw = (ctypes.c_uint8 * (elements * np.dtype(dtype).itemsize)).from_address(address.value)
    whole: Array = np.frombuffer(raw, dtype).reshape(count.value, leading.value).T[: rows.value]
    return whole
