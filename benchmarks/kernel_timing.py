"""Times kernels of the catalogue on the GPU, operands on the device, beside cuBLAS in the same rounds.

Each sample starts with a cold second-level cache: more than it holds is written first. The write also keeps the device
busy while Python launches, so that what Python costs stays outside the two events. Operands are standard normal.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cupy_backends.cuda.api import driver

from jobs.matrices import STORAGE_DTYPES
from kernels.catalog import BY_NAME
from kernels.kernel import CudaKernel, TileConfig
from kernels.numerics import DTypeName, Problem
from worker.compile import Compiler
from worker.cublas import Cublas
from worker.device_memory import DeviceMatrix, allocate
from worker.launch import launch, prepare
from worker.pitch import operand_layout, product_layout

FLUSH_BYTES = 256 << 20  # more than the second-level cache of any device so far
ERROR_ROWS = 128  # of the product, compared with float64
REGISTERS, LOCAL_BYTES, STATIC_SHARED_BYTES = 4, 3, 1  # the driver's numbers of a function's attributes
WARPS_PER_MULTIPROCESSOR = 64


@dataclass(frozen=True, slots=True)
class Resources:
    """Of a compiled kernel at a launch; `occupancy` is the part of a multiprocessor's warps that find room."""

    registers: int
    local_bytes: int
    shared_bytes: int
    occupancy: float


class Bench:
    """Operands of one problem on the device, and what multiplies them."""

    def __init__(self, problem: Problem, cache: Path) -> None:
        self.problem = problem
        self.compiler = Compiler(cache)
        self._cublas = Cublas(self.compiler)
        self._a = _filled(problem.dtype, (problem.m, problem.k), seed=1)
        self._b = _filled(problem.dtype, (problem.k, problem.n), seed=2)
        self._c = allocate(product_layout(problem))
        self._flush = cupy.empty(FLUSH_BYTES, cupy.uint8)

    def action(self, name: str, config: TileConfig) -> Callable[[], None]:
        """What puts one product on the stream. Raises KernelUnavailable."""
        kernel, matrices = BY_NAME[name], (self._a, self._b, self._c)
        if not isinstance(kernel, CudaKernel):
            return lambda: self._cublas.multiply(name, self.problem, *matrices)
        function = prepare(self.compiler, kernel, config, self.problem)
        return lambda: launch(function, kernel, config, self.problem, *matrices)

    def sample_ms(self, action: Callable[[], None]) -> float:
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        self._flush.fill(1)
        start.record()
        action()
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end))

    def error(self, action: Callable[[], None]) -> float:
        """Relative Frobenius norm of the difference from the float64 product, on some rows; C is poisoned before."""
        self._c.memory.memset_async(0xFF, self._c.layout.bytes)
        action()
        rows = np.unique(np.linspace(0, self.problem.m - 1, ERROR_ROWS).astype(int))
        true = _view(self._a)[rows].astype(np.float64) @ _view(self._b).astype(np.float64)
        given = _view(self._c)[rows].astype(np.float64)
        return float(cupy.linalg.norm(given - true) / cupy.linalg.norm(true))

    def resources(self, name: str, config: TileConfig) -> Resources | None:
        """None for a library's kernels."""
        kernel = BY_NAME[name]
        if not isinstance(kernel, CudaKernel):
            return None
        function = prepare(self.compiler, kernel, config, self.problem)
        shape = kernel.launch(self.problem, config)
        threads = shape.block[0] * shape.block[1]
        blocks = driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, threads, shape.shared_bytes)
        return Resources(
            registers=driver.funcGetAttribute(REGISTERS, function.ptr),
            local_bytes=driver.funcGetAttribute(LOCAL_BYTES, function.ptr),
            shared_bytes=driver.funcGetAttribute(STATIC_SHARED_BYTES, function.ptr) + shape.shared_bytes,
            occupancy=blocks * threads / 32 / WARPS_PER_MULTIPROCESSOR,
        )


def rounds(bench: Bench, actions: dict[str, Callable[[], None]], *, samples: int) -> dict[str, list[float]]:
    """Milliseconds by name: every action once in each round, so that all see the same clocks."""
    for action in actions.values():
        bench.sample_ms(action)
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(samples):
        for name, action in actions.items():
            taken[name].append(bench.sample_ms(action))
    return taken


def median(samples: list[float]) -> float:
    return statistics.median(samples)


def _filled(dtype: DTypeName, shape: tuple[int, int], *, seed: int) -> DeviceMatrix:
    matrix = allocate(operand_layout(dtype, shape))
    view, rng = _view(matrix), cupy.random.default_rng(seed)
    for row in range(0, shape[0], 1024):
        part = view[row : row + 1024]
        part[...] = rng.standard_normal(part.shape, dtype=np.float32).astype(part.dtype)
    return matrix


def _view(matrix: DeviceMatrix) -> Any:
    """(rows, columns) without what pads the rows."""
    layout, dtype = matrix.layout, np.dtype(STORAGE_DTYPES[matrix.layout.dtype])
    whole = cupy.ndarray((layout.kept_rows, layout.pitch), dtype, matrix.memory)
    return whole[: layout.rows, : layout.columns]
