"""What the library is told, played by one that computes by numpy as BLAS would: column by column."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from benchmarks.measure.tiles import cublas_xt
from benchmarks.measure.tiles.cublas_xt import CublasXt
from jobs.errors import DeviceFault
from jobs.formats.elements import Array


class Library:
    """cuBLASXt without a GPU."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.status = 0

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
        assert (of_a, of_b, alpha._obj.value, beta._obj.value) == (0, 0, 1.0, 0.0)
        first, second = columns(a, lda, m, k, dtype), columns(b, ldb, k, n, dtype)
        columns(c, ldc, m, n, dtype)[:] = first @ second
        return self.status


def columns(address: Any, leading: Any, rows: Any, count: Any, dtype: Any) -> Array:
    """A matrix as BLAS takes it."""
    elements = leading.value * count.value
    raw = (ctypes.c_uint8 * (elements * np.dtype(dtype).itemsize)).from_address(address.value)
    whole: Array = np.frombuffer(raw, dtype).reshape(count.value, leading.value).T[: rows.value]
    return whole


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    played = Library()
    monkeypatch.setattr(cublas_xt, "_library", lambda: played)
    return played


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_and_columns_come_out_right(library: Library, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((5, 7), (7, 3)))
    c = np.full((5, 3), 9, dtype)
    of_two = CublasXt((0, 1), 4096)
    of_two.multiply(a, b, c)
    of_two.close()
    np.testing.assert_array_equal(c, a @ b)
    assert library.said == [(77, [0, 1]), 4096, "end"]


def test_what_it_reports_is_said(library: Library) -> None:
    made = CublasXt((0,), 4096)
    library.status = 13
    with pytest.raises(DeviceFault, match="error 13"):
        made.multiply(*(np.zeros((2, 2), np.float32) for _ in range(3)))


def test_a_machine_without_it_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    cublas_xt._library.cache_clear()
    with pytest.raises(DeviceFault, match="cuBLAS is not on this machine"):
        CublasXt((0,), 4096)
