"""`fp64_emulated` and its passes in the emulation: run in their order, and the workspace that they leave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from jobs.formats.elements import Array
from kernels.entries.fp64_emulated import (
    COMPLEX_PLANES,
    DEPTH,
    FEWEST,
    FP64_EMULATED,
    LINES,
    MOST,
    SEGMENT,
    VERDICT_BYTES,
)
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, Problem
from tests.emulation.launches import Layout, Memory, Run, execute
from tests.emulation.programs import Compiled, Emulator
from worker.check.elements import core
from worker.cuda.sources import Program, kernel_program

KERNEL = FP64_EMULATED[0]
SOURCE = Path(__file__).with_name("residues.cu")
MULTIPROCESSORS = 2  # of the device that is emulated: few blocks share all tiles
POISON = -77.0
CHUNKS = DEPTH // 16
SEGMENT_TYPE = np.dtype([("squares", "f4"), ("exponent", "i4"), ("log", "u4"), ("count", "u4")])


def config_of(block_n: int) -> TileConfig:
    return KERNEL.resolve_config({"block_n": block_n, "cluster": 1})


def compiled(emulator: Emulator, kind: Problem, block_n: int) -> Compiled:
    """For problems of such operands."""
    assert isinstance(KERNEL, CudaKernel)
    program = kernel_program(KERNEL, config_of(block_n), kind)
    return emulator.compile(Program(SOURCE, program.options), "residues")


@dataclass(frozen=True)
class Found:
    """The workspace, taken apart, and the product."""

    in_float64: bool
    moduli: int
    segments: Array  # of lines
    scales: Array  # by way, of lines: power and quarters
    planes: Array  # int8: (moduli, planes of each, lines, steps)
    c: Array  # POISON where nothing was written; of complex products their numbers


def _memory(elements: Array, gap: int) -> Memory:
    matrices = np.ascontiguousarray(core(elements, transposed=False)).view(np.float64)
    rows, columns = matrices.shape[-2:]
    at = Layout(columns + gap, rows * (columns + gap), offset=gap % 2)
    return Memory(matrices.shape, matrices.dtype, at, matrices.tobytes())


def run_all(
    program: Compiled, problem: Problem, a: Array, b: Array, *, block_n: int = 128, gap: int = 0, order: int = 7
) -> Found:
    """Rows lie `gap` elements apart."""
    assert isinstance(KERNEL, CudaKernel)
    plan = KERNEL.plan(problem, config_of(block_n))
    assert plan.workspace is not None
    numbers = 2 if DTYPES[problem.dtype].is_complex else 1
    c = np.full((problem.batch, problem.m, problem.n * numbers), POISON)
    of_a, of_b, of_c = (_memory(x, gap) for x in (a, b, c))
    strides = (of_a.layout.stride * problem.a_batched, of_b.layout.stride * problem.b_batched, of_c.layout.stride)
    pitches = (of_a.layout.pitch, of_b.layout.pitch, of_c.layout.pitch)
    sizes = (problem.m, problem.n, problem.k, *pitches, *strides, problem.batch)
    kept = bytes(plan.workspace.zeroed_bytes)
    at = (1, 1, plan.workspace.bytes)
    before, behind = ([each.launch for each in plan.passes if each.behind is after] for after in (False, True))
    for which, launch in enumerate((*before, plan.main, *behind)):
        room = Memory(at, np.dtype(np.uint8), Layout(at[2], 0), kept, is_result=True)
        memories = (of_a, of_b, replace(of_c, contents=c.tobytes(), is_result=True), room)
        here = replace(launch, grid=launch.on(MULTIPROCESSORS))
        ((c, left),) = execute(program, [Run(here, memories, (*sizes, which), order, problem)])
        kept = left.tobytes()
    return _taken_apart(problem, kept, c)


def _taken_apart(problem: Problem, workspace: bytes, c: Array) -> Found:
    items_a, items_b = (problem.batch if many else 1 for many in (problem.a_batched, problem.b_batched))
    blocks = items_a * -(-problem.m // LINES) + items_b * -(-problem.n // LINES)
    numbers, of_modulus = (2, COMPLEX_PLANES) if DTYPES[problem.dtype].is_complex else (1, 1)
    lines, of_line, steps = blocks * LINES, -(-problem.k * numbers // SEGMENT), -(-problem.k // DEPTH)
    in_float64, moduli = np.frombuffer(workspace, np.uint32, 2)
    segments = np.frombuffer(workspace, SEGMENT_TYPE, lines * of_line, VERDICT_BYTES).reshape(lines, of_line)
    ways = MOST - FEWEST + 1
    packed = np.frombuffer(workspace, np.int32, ways * lines, VERDICT_BYTES + segments.nbytes).reshape(ways, lines)
    planes = np.frombuffer(workspace, np.int8)[-MOST * of_modulus * lines * steps * DEPTH :]
    chunks = planes.reshape(MOST * of_modulus, blocks, steps, LINES, CHUNKS, 16)
    line, chunk = np.meshgrid(np.arange(LINES), np.arange(CHUNKS), indexing="ij")
    in_order = chunks[:, :, :, line, chunk ^ (line & 7)].transpose(0, 1, 3, 2, 4, 5)
    ordered = in_order.reshape(MOST, of_modulus, lines, steps * DEPTH)
    scales = np.stack([packed >> 3, packed & 7], axis=-1)
    return Found(bool(in_float64), int(moduli), segments, scales, ordered, c)
