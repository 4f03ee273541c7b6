"""One product, in tiles or whole, timed and checked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import cupy
import numpy as np

from benchmarks.measure.tiles.data import CHUNK_ELEMENTS
from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName, Problem
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose
from kernels.tiles.plan import slices
from worker.cuda.library.cublas_xt import CublasXt
from worker.cuda.memory import DeviceMatrix, Staging, StopWatch, allocate, upload
from worker.cuda.pitch import operand_layout, product_layout
from worker.cuda.runner import CudaRunner
from worker.cuda.tiles.gpus import Gpu
from worker.device.operands import HostOperand
from worker.device.runner import gathered
from worker.device.tiles import TiledTask, TileRecord, Tiling

SEED = 20_261_126
WARM_UP_N = 2048


def chosen(runner: CudaRunner, kernel: str, problem: Problem, accuracy: AccuracyName | None = None) -> Choice:
    wanted = accuracy or DTYPES[problem.dtype].accuracy
    return choose(kernel, NO_CONFIG, problem, wanted, runner.device.traits)


def in_tiles(runner: CudaRunner, choice: Choice, tiling: Tiling, arrays: Sequence[Array]) -> dict[str, Any]:
    """Writes the product to the third array. Seconds by this process's clock: until the last checked tile is in the
    host's memory; and until all operands have been compared as well."""
    a, b, out = arrays
    whole = out[np.newaxis]
    problem = tiling.plan.problem
    task = TiledTask(problem, choice, tiling.plan, HostOperand(a), HostOperand(b), whole, None, SEED)
    records: dict[int, TileRecord] = {}
    with runner.tiled(task) as product:
        began = time.perf_counter()
        for checked in product.tiles(frozenset()):
            assert checked.verification.passed, checked
            records[checked.record.tile] = checked.record
        there_s = time.perf_counter() - began
        product.finished(records)
        compared_s = time.perf_counter() - began
        measured = product.measured
    tile = tiling.plan.largest
    of_devices = [tiling.plan.tiles_of(device) for device in range(tiling.plan.devices)]
    of_tiles_ms = max(sum(records[each.number].kernel_ms for each in own) for own in of_devices)
    kernel_ms = of_tiles_ms + measured.kernel_ms  # the latter for a library, which multiplied the whole
    return {
        "kernel": choice.kernel.name,
        "dtype": problem.dtype,
        "m": problem.m,
        "n": problem.n,
        "k": problem.k,
        "devices": tiling.plan.devices,
        "tiles": tiling.plan.count,
        "tile_rows": tile.rows.size,
        "tile_columns": tile.columns.size,
        "outer": tiling.plan.outer,
        "estimate_s": tiling.estimate.total_s,
        "product_s": there_s,
        "compared_s": compared_s,
        "kernel_s": kernel_ms / 1e3,
        "h2d_s": measured.h2d_ms / 1e3,
        "d2h_s": measured.d2h_ms / 1e3,
        "tflops": problem.flops / there_s / 1e12,
        "tflops_compared": problem.flops / compared_s / 1e12,
        "worst_ratio": max(record.residual for record in records.values()),
    }


def warm_up(runner: CudaRunner, choice: Choice, tiling: Tiling) -> None:
    """Compiles and loads what a product in tiles needs: its check, by a small product, and its kernels, by one tile of
    each shape. A library's kernels are loaded at their first launch, which waits until the device is idle."""
    small = replace(tiling.plan.problem, m=WARM_UP_N, n=WARM_UP_N, k=WARM_UP_N)
    stored, product = (STORAGE_DTYPES[each] for each in (small.dtype, small.product_dtype))
    zeros = np.zeros((WARM_UP_N, WARM_UP_N), stored)
    of_small = runner.tiler.in_tiles(small, choice)
    assert of_small is not None, "k is not too deep"
    in_tiles(runner, choice, of_small, (zeros, zeros.copy(), np.zeros((WARM_UP_N, WARM_UP_N), product)))
    for gpu in runner.tiler.gpus[: tiling.plan.devices]:
        with cupy.cuda.Device(gpu.index), cupy.cuda.Stream(non_blocking=True) as stream:
            for problem in shapes_of(tiling):
                operands = DeviceOperands(gpu, problem, choice)
                operands.launch()
                stream.synchronize()
                operands.free()


def shapes_of(tiling: Tiling) -> list[Problem]:
    """All shapes that are launched: of tiles, and of slices of a first tile."""
    plan = tiling.plan
    tiles = [tile.problem(plan.problem) for tile in plan.tiles()]
    first = [replace(tiles[0], m=rows.size) for rows in slices(plan, plan.largest)]
    return list(dict.fromkeys([*first, *tiles]))


class DeviceOperands:
    """Two operands and their product on a GPU, to launch a kernel on: normal numbers, or copies of `arrays`. For the
    context of that GPU and of one stream."""

    def __init__(self, gpu: Gpu, problem: Problem, choice: Choice, arrays: Sequence[Array] = ()) -> None:
        self._gpu, self._problem, self._choice = gpu, problem, choice
        shapes = (problem.m, problem.k), (problem.k, problem.n)
        self._matrices = [allocate(operand_layout(problem.dtype, shape)) for shape in shapes]
        self._product = allocate(product_layout(problem))
        for number, matrix in enumerate(self._matrices):
            if arrays:
                upload(arrays[number], matrix)
            else:
                _fill_device(matrix, problem, number)

    def launch(self) -> None:
        kernel, (a, b) = self._choice.kernel, self._matrices
        if isinstance(kernel, CudaKernel):
            self._gpu.prepared.get(kernel, self._choice.config, self._problem).launch(a, b, self._product)
        else:
            self._gpu.cublas.multiply(kernel.name, self._problem, a, b, self._product)

    def launch_s(self) -> float:
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        self.launch()
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end)) / 1e3

    def product(self) -> Array:
        self.launch()
        dtype = STORAGE_DTYPES[self._problem.product_dtype]
        return np.frombuffer(gathered(Staging().download(self._product, StopWatch())), dtype)

    def free(self) -> None:
        self._matrices.clear()
        del self._product
        cupy.get_default_memory_pool().free_all_blocks()


def in_core_tflops(gpu: Gpu, choice: Choice, problem: Problem, seconds: float) -> float:
    """The kernel alone, with operands on the device: its best launch within some time."""
    with cupy.cuda.Device(gpu.index), cupy.cuda.Stream(non_blocking=True):
        operands = DeviceOperands(gpu, problem, choice)
        operands.launch_s()
        best_s, began = operands.launch_s(), time.perf_counter()
        while time.perf_counter() - began < seconds:
            best_s = min(best_s, operands.launch_s())
        operands.free()
    return problem.flops / best_s / 1e12


def _fill_device(matrix: DeviceMatrix, problem: Problem, seed: int) -> None:
    fill_on_device(matrix.memory, matrix.layout.bytes // matrix.layout.itemsize, problem.dtype, seed)


def fill_on_device(memory: Any, count: int, dtype: DTypeName, seed: int) -> None:
    """Fills it with normal numbers, or with integers from -8 to 8."""
    generator = cupy.random.default_rng(seed)
    types = {"float64": cupy.float64, "float32": cupy.float32, "bfloat16": cupy.uint16, "float16": cupy.float16}
    line = cupy.ndarray((count,), types.get(dtype, cupy.int8), memory)
    for start in range(0, count, CHUNK_ELEMENTS):
        piece = line[start : start + CHUNK_ELEMENTS]
        if dtype == "int8":
            piece[:] = generator.integers(-8, 9, piece.size, dtype=cupy.int32)
        else:
            made = generator.standard_normal(piece.size, dtype=cupy.float64 if dtype == "float64" else cupy.float32)
            piece[:] = (made.view(cupy.uint32) >> 16).astype(cupy.uint16) if dtype == "bfloat16" else made


def by_cublas_xt(arrays: Sequence[Array], devices: Sequence[int], block: int) -> dict[str, Any]:
    """The same product by the library, once."""
    a, b, out = arrays
    library = CublasXt(devices, block)
    try:
        began = time.perf_counter()
        library.multiply(a, b, out)
        spent_s = time.perf_counter() - began
    finally:
        library.close()
    (m, k), n = a.shape, b.shape[1]
    return {
        "kernel": "cublas_xt",
        "dtype": str(out.dtype),
        "m": m,
        "n": n,
        "k": k,
        "devices": len(devices),
        "tile_rows": block,
        "tile_columns": block,
        "product_s": spent_s,
        "tflops": 2 * m * n * k / spent_s / 1e12,
    }
