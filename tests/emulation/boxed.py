"""Launches of kernels that read and write matrices by bulk copies: tensor maps, sizes, and a workspace for those with
one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.entry.config import TileConfig
from kernels.model.fused import FusedEpilogue
from kernels.model.kernel import CudaKernel
from kernels.model.launch_plan import Workspace
from kernels.model.numerics import Problem
from tests.emulation.launches import Layout, Memory, Run
from worker.check.elements import core

GROUP_BYTES = 16  # which rows begin at


@dataclass(frozen=True, slots=True)
class Case:
    problem: Problem  # as the kernel's function finds it
    multiprocessors: int


@dataclass(frozen=True, slots=True)
class Addends:
    """Of a kernel with an epilogue: C (batch or 1, m, n) and a bias, 1×n or m×1, in stored form of D's type."""

    fused: FusedEpilogue
    alpha: float
    beta: float
    c: Array
    bias: Array

    @property
    def memories(self) -> tuple[Memory, Memory]:
        return _memory(self.c, 0), _memory(self.bias[np.newaxis], 1)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Behind the sizes."""
        c, bias = self.memories
        rows, columns = self.bias.shape
        steps = (0 if rows == 1 else bias.layout.pitch, 0 if columns == 1 else 1)
        factors = np.array([self.alpha, self.beta], np.float32).view(np.int32).tolist()
        return c.layout.pitch, c.layout.stride if len(self.c) > 1 else 0, *steps, *factors


def run_of(
    kernel: CudaKernel,
    config: TileConfig,
    case: Case,
    pair: tuple[Array, Array],
    order: int,
    addends: Addends | None = None,
) -> Run:
    problem, fused = case.problem, None if addends is None else addends.fused
    plan = kernel.plan(problem, config, fused)
    assert plan.boxes is not None
    a, b = (_memory(core(x, transposed=False), gap) for gap, x in enumerate(pair))
    output = problem.product_dtype if fused is None else fused.output
    c = _memory(np.empty((problem.batch, problem.m, problem.n), STORAGE_DTYPES[output]), 1, is_result=True)
    box = plan.boxes
    maps: tuple[int, ...] = (*map_numbers(a, box.a), *map_numbers(b, box.b), *map_numbers(c, box.c))
    memories = [a, b, c]
    sizes: tuple[int, ...] = (problem.m, problem.n, problem.k, problem.batch, a.shape[0], b.shape[0])
    if (thin := box.thin) is not None:
        maps += (*map_numbers(a, thin.box), *map_numbers(b, thin.box))
        memories += [a, b]
        sizes += (thin.row, thin.column)
    if addends is not None:
        memories += addends.memories
        sizes += addends.numbers
        if addends.fused.activation is not None:
            memories.append(z := replace(c))
            sizes += map_numbers(z, box.c)
    launch = replace(plan.main, grid=plan.main.on(case.multiprocessors))
    return Run(launch, (*memories, *_workspace(plan.workspace)), (*maps, *sizes), order, case)


def _workspace(room: Workspace | None) -> tuple[Memory, ...]:
    if room is None:
        return ()
    words = Memory((1, 1, room.bytes), np.dtype(np.uint8), Layout(room.bytes, 0), bytes(room.zeroed_bytes))
    counters = [Memory.flat(np.zeros(room.counters, np.uint32), is_result=True)] if room.counters else []
    return (words, *counters)


def _memory(elements: Array, gap: int, *, is_result: bool = False) -> Memory:
    """Rows at multiples of 16 bytes, between which nobody reads or writes."""
    _, rows, columns = elements.shape
    group = GROUP_BYTES // elements.itemsize
    pitch = (columns // group + 1 + gap) * group
    contents = b"" if is_result else elements.tobytes()
    return Memory(elements.shape, elements.dtype, Layout(pitch, (rows + 1) * pitch), contents, is_result)


def map_numbers(matrix: Memory, box: tuple[int, int]) -> tuple[int, ...]:
    batch, rows, columns = matrix.shape
    pitches = matrix.layout.pitch * matrix.dtype.itemsize, matrix.layout.stride * matrix.dtype.itemsize
    return columns, rows, batch, *pitches, *box, matrix.dtype.itemsize
