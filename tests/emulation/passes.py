"""The passes of `fp32_emulated` in the emulation: run in their order, and the workspace that they leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np

from jobs.formats.elements import Array
from kernels.entries.fp32_emulated import COUNTERS, DEPTH, DIGITS, FP32_EMULATED, LINES, VERDICT_BYTES
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.launch_plan import Launch, Pass
from kernels.model.numerics import Problem
from tests.emulation.launches import Layout, Memory, Run, execute
from tests.emulation.programs import Compiled, Emulator
from tests.support.kernels.emulated import Way
from worker.check.elements import core
from worker.cuda.sources import Program, kernel_program

KERNEL = FP32_EMULATED[0]
WAYS: tuple[Way, ...] = get_args(Way)  # in the order of `Way` in emulated_way.cuh
PASSES = ("emulated_measure", "emulated_judge", "emulated_split", "emulated_lines", "ways")
MULTIPROCESSORS = 2  # of the device that is emulated: few blocks share what is multiplied behind the kernel
POISON = np.float32(-77.0)
Programs = Mapping[str, Compiled]


def compiled(emulator: Emulator, transposes: tuple[bool, bool], asked: TileConfig) -> Programs:
    """Each pass, by its name."""
    assert isinstance(KERNEL, CudaKernel)
    config = KERNEL.resolve_config(asked)
    options = kernel_program(KERNEL, config, Problem(1, 1, 1, "float32", 1, *transposes)).options
    return emulator.compile_each(Program(Path(__file__).with_name("emulated_passes.cu"), options), PASSES)


@dataclass(frozen=True)
class Found:
    """The workspace, taken apart."""

    in_float32: bool
    logs: Array  # of lines
    logs_of_four: Array
    peaks: Array  # bits
    listed: list[Array]  # of A's items and then B's: numbers of lines, rising
    spreads: Array  # of blocks of lines: the heaviest, the mean weight, the widest, the mean
    digits: Array  # of lines: (blocks, LINES, steps · DEPTH, DIGITS)
    ways: list[Way]  # of tiles, row by row
    c: Array  # POISON where the passes wrote nothing


def layout(shape: tuple[int, ...], gap: int) -> Layout:
    rows, columns = shape[-2:]
    return Layout(columns + gap, rows * (columns + gap), offset=gap % 4)


def memory(elements: Array, gap: int) -> Memory:
    matrices = core(elements, transposed=False)
    return Memory(matrices.shape, matrices.dtype, layout(matrices.shape, gap), matrices.tobytes())


def run_passes(
    programs: Programs, problem: Problem, a: Array, b: Array, gap: int = 0, order: int = 7, *, always: bool = False
) -> Found:
    """All of them in their order, without the kernel in between; rows lie `gap` elements apart. `always`: digits are
    written even if the whole product is left to float32."""
    assert isinstance(KERNEL, CudaKernel)
    config = KERNEL.resolve_config()
    plan = KERNEL.plan(problem, config)
    workspace = plan.workspace
    assert workspace is not None
    of_a, of_b = memory(a, gap), memory(b, gap)
    shape = (problem.batch, problem.m, problem.n)
    of_c = layout(shape, gap)
    c = np.full(shape, POISON)
    strides = (of_a.layout.stride * problem.a_batched, of_b.layout.stride * problem.b_batched, of_c.stride)
    numbers = (problem.m, problem.n, problem.k, of_a.layout.pitch, of_b.layout.pitch, of_c.pitch, *strides)
    kept = bytes(workspace.zeroed_bytes)
    for each in (*plan.passes, Pass("ways", Launch((1, 1, 1), (1, 1, 1)))):
        at = (1, 1, workspace.bytes)
        memories = (
            of_a,
            of_b,
            Memory(shape, c.dtype, of_c, c.tobytes(), is_result=True),
            Memory(at, np.dtype(np.uint8), Layout(at[2], 0), kept, is_result=True),
        )
        launch = replace(each.launch, grid=each.launch.on(MULTIPROCESSORS))
        ((given, left),) = execute(
            programs[each.name], [Run(launch, memories, (*numbers, problem.batch), order, problem)]
        )
        if each.name == "ways":
            found = given[:, ::LINES, ::LINES].reshape(-1).astype(int)
            return _taken_apart(problem, kept, [WAYS[way] for way in found], c)
        c, kept = given, left.tobytes()
        if always and each.name == "emulated_judge":
            kept = bytes(4) + kept[4:]
    raise AssertionError("the last pass tells the ways")


def _taken_apart(problem: Problem, workspace: bytes, ways: list[Way], c: Array) -> Found:
    items_a, items_b = (problem.batch if many else 1 for many in (problem.a_batched, problem.b_batched))
    blocks_a, blocks_b = -(-problem.m // LINES), -(-problem.n // LINES)
    blocks = items_a * blocks_a + items_b * blocks_b
    lines, steps, items = blocks * LINES, -(-problem.k // DEPTH), items_a + items_b
    counts = ((np.uint64, lines), (np.uint64, lines), (np.uint32, lines), (np.uint32, -(-items // 4) * 4 + COUNTERS))
    at, parts = VERDICT_BYTES, []
    for dtype, count in (*counts, (np.float32, 4 * blocks), (np.uint32, lines)):
        parts.append(np.frombuffer(workspace, dtype, count, at))
        at += parts[-1].nbytes
    firsts = [item * blocks_a for item in range(items_a)]
    firsts += [items_a * blocks_a + item * blocks_b for item in range(items_b)]
    lists = [np.sort(parts[5][first * LINES :][:count]) for first, count in zip(firsts, parts[3][:items], strict=True)]
    planes = np.frombuffer(workspace, np.int8, blocks * steps * DIGITS * LINES * DEPTH, -(-at // 128) * 128)
    in_float32 = bool(np.frombuffer(workspace, np.uint32, 1)[0])
    digits, spreads = _lines_of(planes, blocks, steps), parts[4].reshape(blocks, 4)
    return Found(in_float32, parts[0], parts[1], parts[2], lists, spreads, digits, ways, c)


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
