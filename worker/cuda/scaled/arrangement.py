"""The layouts of block scales for kernels, and launches that multiply operands by scales. Planned without a device."""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array
from kernels.model.groups import tiles
from kernels.model.launch_plan import Launch
from kernels.model.numerics import Problem
from kernels.model.scales import SCALE_DEPTH
from worker.cuda.pitch import Layout, in_groups, operand_layout, stored_shapes
from worker.device.scaled import ScaledOperand, scales_by_stage

ACROSS, DOWN = 32, 8  # threads of a block, as in dequantise.cu
LARGEST_GRID = 65_535  # along y and z
BEYOND = 256  # lines that a tile may reach beyond the last one; hopper_scales.cuh reads their scales, too
LINES_OF_TILE = 128
BLOCKS_TOGETHER = 4  # that cublasLt reads
COPIED_BYTES = 16  # at least, by a bulk copy
LARGEST_COUNT = 2**31 - 1  # of scales: kernels count them in 32 bits


def by_stage(problem: Problem, operand: ScaledOperand, name: str) -> Array:
    """Scales of A or B as kernels read them: (items, stages of k and one more, lines and some beyond them), zeros where
    there are none. Rows of A have one each, columns of B as `problem.scale_columns` says."""
    of_a = name == "a"
    transposed = problem.transpose_a if of_a else problem.transpose_b
    found = scales_by_stage(operand, along_rows=of_a, transposed=transposed, is_repeated=of_a)
    items, stages, lines = found.shape
    arranged = np.zeros((items, stages + 1, tiles(lines, LINES_OF_TILE) * LINES_OF_TILE + BEYOND), np.float32)
    arranged[:, :stages, :lines] = found
    return arranged


def for_bulk_copies(problem: Problem, of_b: Array) -> Array:
    """Scales of B `by_stage` as `hopper_fp8` brings them into shared memory. Those of 128 columns stand there four
    times, as copies are of 16 bytes. Of those of 16 columns a thread has columns 2·t, 2·t + 1 and those 8 further on,
    which lie next to each other."""
    if problem.scale_columns > 1:
        return of_b.repeat(COPIED_BYTES // of_b.itemsize, axis=2)
    items, stages, lines = of_b.shape
    apart = of_b.reshape(items, stages, lines // 16, 2, 4, 2)
    return np.ascontiguousarray(apart.swapaxes(3, 4)).reshape(of_b.shape)


def for_library(problem: Problem, of_a: Array, of_b: Array) -> tuple[Array, Array]:
    """Scales `by_stage` as cublasLt reads them. Those of single lines lie stage by stage, of as many lines as are
    multiplied; those of blocks lie block by block, and begin at multiples of four."""
    stages, (m, n) = tiles(problem.k, SCALE_DEPTH), map(in_groups, (problem.m, problem.n))
    lines_of_a: Array = np.ascontiguousarray(of_a[:, :stages, :m])
    if problem.scale_columns == 1:
        return lines_of_a, np.ascontiguousarray(of_b[:, :stages, :n])
    blocks: Array = np.zeros(
        (len(of_b), tiles(n, SCALE_DEPTH), tiles(stages, BLOCKS_TOGETHER) * BLOCKS_TOGETHER), np.float32
    )
    blocks[:, :, :stages] = of_b[:, :stages, : blocks.shape[1]].swapaxes(1, 2)
    return lines_of_a, blocks


def dequantised_layout(layout: Layout) -> Layout:
    """The layout of an operand's numbers in float32."""
    shape = (layout.rows, layout.columns)
    return operand_layout("float32", (layout.batch, *shape) if layout.batch > 1 else shape)


def scaled_bytes(problem: Problem) -> int:
    """Bytes of both operands in float32; 0 without scales."""
    if not problem.scale_columns:
        return 0
    shapes = stored_shapes(problem)
    return sum(operand_layout("float32", shape).bytes for shape in shapes)


def launch_of(layout: Layout) -> Launch:
    grid = (
        max(tiles(layout.columns, ACROSS), 1),
        max(min(tiles(layout.rows, DOWN), LARGEST_GRID), 1),
        max(min(layout.batch, LARGEST_GRID), 1),
    )
    return Launch(grid, (ACROSS * DOWN, 1, 1))


def sizes_of(layout: Layout, made: Layout) -> tuple[int, ...]:
    """The numbers that both functions take first."""
    return layout.rows, layout.columns, layout.batch, layout.pitch, made.pitch, layout.stride, made.stride
