"""How a product goes that a library multiplies: what is refused, how long it takes, and in what tiles it is checked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.catalog import BY_NAME
from kernels.entries.libraries import CUBLASMP
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import DTYPES, Problem
from kernels.tiles.estimate import Speeds
from kernels.tiles.plan import TileBytes
from worker.cuda.tiles.by_library import LibraryTiler
from worker.device.runner import DoesNotFit

GB = 10**9
SPEEDS = Speeds(flops=50e12, copied_bytes=50e9, memory_bytes=2e12)
LARGE = Problem(30_000, 30_000, 30_000, "float32")  # 10.8 GB; 54e12 operations


def tile_bytes(problem: Problem) -> TileBytes:
    size = DTYPES[problem.dtype].itemsize
    return TileBytes(problem.m * problem.k * size, problem.k * problem.n * size, problem.m * problem.n * size, 0)


def tiler(name: str, devices: int = 2, device_bytes: int = 70 * GB) -> LibraryTiler:
    kernel = CUBLASMP if name == CUBLASMP.name else BY_NAME[name]
    assert isinstance(kernel, HostLibraryKernel)
    return LibraryTiler(kernel, devices, device_bytes, SPEEDS, tile_bytes)


def test_a_library_that_streams_is_as_fast_as_the_slower_of_both() -> None:
    assert tiler("cublas_xt").library_s(LARGE) == pytest.approx(54 / 50 / 2)
    assert tiler("cublas_xt").library_s(replace(LARGE, k=30)) == pytest.approx(3.6e9 / 50e9 / 2, rel=0.01)
    assert tiler("cublasmp").library_s(LARGE) == pytest.approx(54 / 50 / 2 + 10.8 / 50 / 2)


def test_the_record_says_what_comes_before_the_tiles() -> None:
    tiling = tiler("cublas_xt").tiling(LARGE)
    assert tiling is not None
    assert tiling.why.startswith("in one call on 2 GPUs, then checked in ") and "tiles of" in tiling.why
    checks_s = tiling.estimate.total_s - tiler("cublas_xt").library_s(LARGE)
    assert 10.8 / 50 / 2 < checks_s < 4 * 10.8 / 50 / 2, "all matrices pass the bus, and not many times"
    one = tiler("cublas_xt", devices=1).tiling(LARGE)
    assert one is not None and "in one call on one GPU" in one.why and one.estimate.total_s > tiling.estimate.total_s


def test_what_is_small_is_checked_by_this_process() -> None:
    assert tiler("cublas_xt").tiling(Problem(600, 600, 600, "float64")) is None


def test_a_product_of_which_a_gpu_cannot_have_its_part_is_refused() -> None:
    """A part of all three is 5.4 GB, all of A 3.6 GB, and there are 0.1 GB beside them."""
    assert tiler("cublasmp", device_bytes=10 * GB).tiling(LARGE) is not None
    with pytest.raises(DoesNotFit, match=r"needs 911\d{7} bytes on each of 2 GPUs.*take `auto`"):
        tiler("cublasmp", device_bytes=8 * GB).tiling(LARGE)
    assert tiler("cublas_xt", device_bytes=8 * GB).tiling(LARGE) is not None


def test_k_that_is_too_deep_for_the_check() -> None:
    with pytest.raises(DoesNotFit, match="not even 64 rows of A"):
        tiler("cublas_xt", device_bytes=GB // 100).tiling(LARGE)
