"""The passes before `fp32_emulated` in the emulation: run in their order, and the workspace that they leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np

from jobs.matrices import Array
from kernels.entries.fp32_emulated import DEPTH, DIGITS, FP32_EMULATED, LINES, is_direct
from kernels.kernel import CudaKernel, TileConfig
from kernels.numerics import Problem
from tests.emulation.launches import Layout, Memory, Run, execute
from tests.emulation.programs import Compiled, Emulator
from tests.support.emulated import Way
from worker.elements import core
from worker.sources import Program, kernel_program

KERNEL = FP32_EMULATED[0]
WAYS: tuple[Way | None, ...] = (None, *get_args(Way))  # None: on CUDA cores
POISON = np.float32(-77.0)
Programs = Mapping[str, Compiled]


def compiled(emulator: Emulator, transposes: tuple[bool, bool], name: str, asked: TileConfig) -> Compiled:
    assert isinstance(KERNEL, CudaKernel)
    config = KERNEL.resolve_config(asked)
    options = kernel_program(KERNEL, config, Problem(1, 1, 1, "float32", 1, *transposes)).options
    return emulator.compile(Program(Path(__file__).with_name("emulated_passes.cu"), options), name)


@dataclass(frozen=True)
class Found:
    """The workspace, taken apart."""

    squares: Array  # of lines
    peaks: Array  # bits
    digits: Array  # of lines: (blocks, LINES, steps · DEPTH, DIGITS)
    spreads: Array  # of blocks of lines
    ways: list[Way | None]  # of tiles, row by row
    c: Array  # POISON where the passes wrote nothing


def layout(shape: tuple[int, ...], gap: int) -> Layout:
    rows, columns = shape[-2:]
    return Layout(columns + gap, rows * (columns + gap), offset=gap % 4)


def memory(elements: Array, gap: int) -> Memory:
    matrices = core(elements, transposed=False)
    return Memory(matrices.shape, matrices.dtype, layout(matrices.shape, gap), matrices.tobytes())


def run_passes(programs: Programs, problem: Problem, a: Array, b: Array, gap: int = 0) -> Found:
    """All of them in their order; rows lie `gap` elements apart."""
    assert isinstance(KERNEL, CudaKernel)
    config = KERNEL.resolve_config()
    assert KERNEL.workspace is not None and KERNEL.passes is not None
    workspace, passes = KERNEL.workspace(problem, config), KERNEL.passes(problem, config)
    of_a, of_b = memory(a, gap), memory(b, gap)
    shape = (problem.batch, problem.m, problem.n)
    of_c = layout(shape, gap)
    c = np.full(shape, POISON)
    strides = (of_a.layout.stride * problem.a_batched, of_b.layout.stride * problem.b_batched, of_c.stride)
    numbers = (problem.m, problem.n, problem.k, of_a.layout.pitch, of_b.layout.pitch, of_c.pitch, *strides)
    kept = bytes(workspace.zeroed_bytes)
    ways = replace(passes[-1], name="ways")
    for each in (*passes, ways):
        at = (1, 1, max(workspace.bytes, 1))
        memories = (
            of_a,
            of_b,
            Memory(shape, c.dtype, of_c, c.tobytes(), is_result=True),
            Memory(at, np.dtype(np.uint8), Layout(at[2], 0), kept, is_result=True),
        )
        blocks = min(each.launch.grid[0], 3 if each.launch.resident else 1 << 30)
        launch = replace(each.launch, grid=(1 if each is ways else blocks, 1, 1), resident=False)
        if each is ways:
            launch = replace(launch, block=(1, 1, 1))
        ((given, left),) = execute(programs[each.name], [Run(launch, memories, (*numbers, problem.batch), 7, problem)])
        if each is ways:
            found = given[:, ::LINES, ::LINES].reshape(-1).astype(int)
            return _taken_apart(problem, kept, [WAYS[way] for way in found], c)
        c, kept = given, left.tobytes()
    raise AssertionError("the last pass tells the ways")


def _taken_apart(problem: Problem, workspace: bytes, ways: list[Way | None], c: Array) -> Found:
    if is_direct(problem):
        none = np.zeros(0)
        return Found(none, none, none, none, ways, c)
    items_a, items_b = (problem.batch if many else 1 for many in (problem.a_batched, problem.b_batched))
    blocks = items_a * -(-problem.m // LINES) + items_b * -(-problem.n // LINES)
    lines, steps = blocks * LINES, -(-problem.k // DEPTH)
    of_steps = (items_a + items_b) * steps * DEPTH
    counts = ((np.uint64, lines), (np.uint32, lines), (np.uint32, of_steps), (np.uint32, 4 * problem.batch))
    at, parts = 0, []
    for dtype, count in (*counts, (np.uint32, blocks), (np.float32, blocks)):
        parts.append(np.frombuffer(workspace, dtype, count, at))
        at += parts[-1].nbytes
    planes = np.frombuffer(workspace, np.int8, offset=-(-at // 128) * 128)
    return Found(parts[0], parts[1], _lines_of(planes, blocks, steps), parts[5], ways, c)


def _lines_of(planes: Array, blocks: int, steps: int) -> Array:
    """Undoes the order of tiles, planes and chunks."""
    chunks = planes.reshape(blocks, steps, DIGITS, LINES, 4, 16)
    line, chunk = np.meshgrid(np.arange(LINES), np.arange(4), indexing="ij")
    ordered = chunks[:, :, :, line, chunk ^ (line >> 1 & 3)]
    return ordered.transpose(0, 3, 1, 4, 5, 2).reshape(blocks, LINES, steps * DEPTH, DIGITS)


def lines_of(problem: Problem, a: Array, b: Array) -> tuple[Array, Array]:
    """Rows of A and columns of B."""
    of_a, of_b = core(a, transposed=problem.transpose_a), core(b, transposed=problem.transpose_b)
    return of_a, of_b.swapaxes(-1, -2)
