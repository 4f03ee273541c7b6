"""Fixtures that need an NVIDIA GPU. Without one these tests are skipped, but fail where MATMUL_REQUIRE_GPU is 1."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs.settings import Settings

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner


def _why_not() -> str | None:
    """Why no GPU can be used, in a sentence; None where one can."""
    try:
        import cupy
    except ImportError as error:
        return f"CuPy cannot be imported: {error}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CUDA does not start: {error}"
    return None if count else "there is no NVIDIA GPU"


def _process_count() -> int:
    """Of pytest-xdist."""
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


@pytest.fixture(scope="session")
def gpu() -> None:
    """Skips, or fails where a GPU is required."""
    reason = _why_not()
    if reason is None:
        return
    if os.environ.get("MATMUL_REQUIRE_GPU") == "1":
        pytest.fail(f"MATMUL_REQUIRE_GPU is 1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def gpu_settings(gpu: None, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Compiled kernels are kept for the next run where MATMUL_KERNEL_CACHE_DIR says where, and shared by the processes
    of this one."""
    kept = os.environ.get("MATMUL_KERNEL_CACHE_DIR")
    of_all = tmp_path_factory.getbasetemp().parent if _process_count() > 1 else tmp_path_factory.getbasetemp()
    return Settings(device="gpu:0", kernel_cache_dir=Path(kept) if kept else of_all / "kernels")


@pytest.fixture(scope="session")
def session_runner(gpu_settings: Settings) -> CudaRunner:
    from worker.cuda.runner import CudaRunner

    return CudaRunner(gpu_settings)


@pytest.fixture
def runner(session_runner: CudaRunner, monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaRunner]:
    """The GPU; what it allocates is full of poison, so an element that no kernel writes is seen."""
    from tests.gpu.poisoned import allocate_poisoned
    from worker.cuda import runner as cuda_runner
    from worker.cuda.epilogue import fused, on_device
    from worker.cuda.products import operands

    for module in (cuda_runner, fused, on_device, operands):
        monkeypatch.setattr(module, "allocate", allocate_poisoned)
    yield session_runner
    session_runner.cache.clear()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Fresh numbers in each run; MATMUL_TEST_SEED repeats one."""
    seed = int(os.environ.get("MATMUL_TEST_SEED", secrets.randbits(32)))
    print(f"MATMUL_TEST_SEED={seed}")  # pytest shows it where a test fails
    return np.random.default_rng(seed)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.gpu)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _process_count() > 1 and item.get_closest_marker("alone") is not None:
        pytest.skip("it needs the GPU to itself: run it by `-m alone`, without -n")
