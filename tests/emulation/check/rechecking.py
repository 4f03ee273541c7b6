"""Lines of a product computed again in the emulation, by the plan that the GPU worker follows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jobs.formats.elements import Array
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTypeName, Problem
from tests.emulation.check.sketching import stored_memory
from tests.emulation.launches import Memory, Run, execute
from tests.emulation.programs import Compiled, Emulator
from worker.check.elements import core
from worker.check.elementwise import Added, Operands, worst_of_element
from worker.check.host_matrix import HostMatrix
from worker.check.rounding import Rounding
from worker.cuda.check.recheck_plan import (
    OPEN_WORDS,
    RESULT_WORDS,
    THREADS,
    Element,
    Epilogue,
    Operand,
    RecheckGeometry,
    block_count,
    launches,
    numbers,
)
from worker.cuda.sources import RECHECK_SOURCE, Program, recheck_program


def compiled(emulator: Emulator, dtype: DTypeName, output: DTypeName | None = None) -> Compiled:
    options = (*recheck_program(dtype, output).options, f'-DRECHECK="{RECHECK_SOURCE}"')
    return emulator.compile(Program(Path(__file__).with_name("recheck_given.cu"), options), "recheck_given")


@dataclass(frozen=True, slots=True)
class Given:
    """A product with its operands as they are stored. `c` is of the type `output`; `addends` are C and a bias (batch or
    1, rows, columns), of the same type."""

    problem: Problem
    a: Array
    b: Array
    c: Array
    rounding: Rounding
    output: DTypeName | None = None
    alpha: float = 1.0
    beta: float = 0.0
    addends: tuple[Array | None, Array | None] | None = None

    @property
    def operands(self) -> Operands:
        """As the host reads them."""
        problem, output = self.problem, self.output or self.problem.product_dtype
        a = HostMatrix(core(self.a, transposed=problem.transpose_a), problem.dtype)
        b = HostMatrix(core(self.b, transposed=problem.transpose_b), problem.dtype)
        added = None
        if self.addends is not None:
            factors = zip((self.beta, 1.0), self.addends, strict=True)
            terms = tuple((factor, HostMatrix(each, output)) for factor, each in factors if each is not None)
            added = Added(self.alpha, terms)
        return Operands(a, b, HostMatrix(core(self.c, transposed=False), output), added)


@dataclass(frozen=True, slots=True)
class Found:
    """Of all launches: the largest ratio that the kernel decided, and what it left to the host."""

    worst: float
    left: int
    open: list[tuple[int, int, int]]  # item, row, column

    def settled(self, given: Given) -> float:
        """With what the host says of elements that are left."""
        operands, rounding = given.operands, given.rounding
        return max([self.worst, *(worst_of_element(operands, *at, rounding) for at in self.open)])


def rechecked(
    kernel: Compiled,
    given: Given,
    mask: Array,
    *,
    of_columns: bool = False,
    decides: bool = True,
    gap: int | None = 3,
    order: int = 0,
) -> Found:
    """`mask` is (batch, lines)."""
    problem = given.problem
    memories = [stored_memory(each, gap) for each in (given.a, given.b, given.c)]
    a, b, c = memories
    strides = [each.layout.stride if each.shape[0] > 1 else 0 for each in memories]
    sides = (
        Operand(not problem.transpose_a, a.layout.pitch, strides[0]),
        Operand(problem.transpose_b, b.layout.pitch, strides[1]),
    )
    addend, bias = (None, None) if given.addends is None else given.addends
    of_addend, of_bias = (stored_memory(given.c if each is None else each, gap) for each in (addend, bias))
    epilogue = None
    if given.addends is not None:
        epilogue = Epilogue(given.alpha, given.beta, _element(addend, of_addend), _bias(bias, of_bias))
    crossed = problem.m if of_columns else problem.n
    geometry = RecheckGeometry(sides, Element(c.layout.pitch, 1, strides[2]), epilogue)
    own = numbers(given.rounding, geometry, crossed, of_columns=of_columns, decides=decides)
    runs = []
    for lines in launches(mask, crossed, problem.k):
        first = (b, a) if of_columns else (a, b)
        flat = (Memory.flat(lines.lines), Memory.flat(lines.tiles.reshape(-1)))
        results = [Memory.flat(np.zeros(count, np.uint64), is_result=True) for count in (1, 1, RESULT_WORDS - 2)]
        launch = Launch((block_count(lines, crossed), 1, 1), (THREADS, 1, 1))
        arguments = (*first, c, of_addend, of_bias, *flat, *results)
        runs.append(Run(launch, arguments, tuple(own.view(np.int64).tolist()), order, problem))
    found = execute(kernel, runs)
    worst = max((float(one[0].reshape(-1).view(np.float64)[0]) for one in found), default=0.0)
    counts = [int(one[1].reshape(-1)[0]) for one in found]
    entries = [one[2].reshape(-1, OPEN_WORDS)[:count, :3] for one, count in zip(found, counts, strict=True)]
    open_ = [
        (item, *((other, line) if of_columns else (line, other))) for each in entries for item, line, other in each
    ]
    return Found(worst, sum(counts), [(int(item), int(row), int(column)) for item, row, column in open_])


def _element(matrix: Array | None, memory: Memory) -> Element | None:
    if matrix is None:
        return None
    return Element(memory.layout.pitch, 1, memory.layout.stride if memory.shape[0] > 1 else 0)


def _bias(matrix: Array | None, memory: Memory) -> Element | None:
    if matrix is None:
        return None
    _, rows, columns = memory.shape
    return Element(0 if rows == 1 else memory.layout.pitch, 0 if columns == 1 else 1, 0)
