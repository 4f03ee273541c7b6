"""What the library is told, played by one that computes by numpy as BLAS would: column by column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jobs.errors import DeviceFault, KernelUnavailable, OutOfDeviceMemory
from tests.support.played.cublas_xt import PlayedXt
from worker.cuda.library import cublas_xt
from worker.cuda.library.cublas_xt import CublasXt


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> PlayedXt:
    played = PlayedXt()
    monkeypatch.setattr(cublas_xt, "_library", lambda: played)
    return played


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_rows_and_columns_come_out_right(library: PlayedXt, dtype: Any, transpose_a: bool, transpose_b: bool) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-3, 4, (7, 5) if transpose_a else (5, 7)).astype(dtype)
    b = rng.integers(-3, 4, (3, 7) if transpose_b else (7, 3)).astype(dtype)
    c = np.full((5, 3), 9, dtype)
    of_two = CublasXt((0, 1), 4096)
    of_two.multiply(a, b, c, transpose_a=transpose_a, transpose_b=transpose_b)
    of_two.close()
    np.testing.assert_array_equal(c, (a.T if transpose_a else a) @ (b.T if transpose_b else b))
    assert library.said == [(77, [0, 1]), 4096, "end"]


def test_its_status_codes_become_errors(library: PlayedXt) -> None:
    made = CublasXt((0,), 4096)
    matrices = [np.zeros((2, 2), np.float32) for _ in range(3)]
    library.status = 13
    with pytest.raises(DeviceFault, match="cublasXtSgemm failed with status 13"):
        made.multiply(*matrices)
    library.status = 3
    with pytest.raises(OutOfDeviceMemory, match="a smaller `block`"):
        made.multiply(*matrices)


def test_a_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublas_xt, "shared_object", lambda *_: None)
    with pytest.raises(KernelUnavailable, match="cuBLAS is not on this worker's path"):
        CublasXt((0,), 4096)
