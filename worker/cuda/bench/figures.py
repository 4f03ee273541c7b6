"""The device resources of a launch of one of this project's kernels, as reported by the driver."""

from __future__ import annotations

from typing import Any

import cupy
from cupy_backends.cuda.api import driver

from jobs.benchmarks.records import LaunchFigures
from kernels.model.architectures import WARP
from kernels.model.launch_plan import Launch

REGISTERS, LOCAL_BYTES, STATIC_SHARED_BYTES = 4, 3, 1  # the driver's numbers of a function's attributes
MAX_THREADS_PER_MULTIPROCESSOR = 39  # cudaDeviceAttr


def launch_figures(function: Any, launch: Launch, multiprocessors: int | None) -> LaunchFigures:
    """Raises cupy's CUDADriverError."""
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    resident = driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, threads, launch.shared_bytes)
    max_warps = cupy.cuda.runtime.deviceGetAttribute(MAX_THREADS_PER_MULTIPROCESSOR, 0) // WARP
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    at_once = resident * (multiprocessors or 0)
    return LaunchFigures(
        grid=launch.grid,
        block=launch.block,
        dyn_smem_bytes=launch.shared_bytes,
        static_smem_bytes=driver.funcGetAttribute(STATIC_SHARED_BYTES, function.ptr),
        registers=driver.funcGetAttribute(REGISTERS, function.ptr),
        local_bytes=driver.funcGetAttribute(LOCAL_BYTES, function.ptr),
        resident_blocks=resident,
        occupancy=resident * -(-threads // WARP) / max_warps,
        waves=blocks / at_once if at_once else None,
    )
