"""The layout of complex matrices on the device as operands of the equivalent real product (`Problem.as_real`). Needs no
device.

Rows of A and of C are as they lie, seen as numbers of half the size, unless A is stored transposed; B becomes blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from kernels.model.arrange import MAX_GRID_Z
from kernels.model.groups import tiles
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTYPES, Problem
from worker.check.views.as_real import signs_of
from worker.cuda.pitch import Layout, operand_layout

SIDE, THREADS = 32, 256  # of a tile in elements, and of a block, as in src/complex_layout.cu
CHECK_BLOCKS = 4096  # at most
FINITE_BLOCKS = 16, 1024  # along a row and along rows, at most
KEPT = 4096  # layouts, so that equal ones are mostly the same


@lru_cache(maxsize=KEPT)
def real_layout(at: Layout) -> Layout:
    """The layout of the same memory with parts as elements."""
    return replace(at, dtype=DTYPES[at.dtype].real, columns=2 * at.columns, pitch=2 * at.pitch)


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How one operand is rewritten. `rows` and `columns` are its own, after transposition."""

    at: Layout
    to: Layout
    rows: int
    columns: int
    transposed: bool
    blocks: bool
    of_a: int = 1  # -1 for a conjugate of A, which blocks of B have in them
    of_b: int = 1

    @property
    def function(self) -> str:
        return "complex_blocks" if self.blocks else "complex_rows"

    @property
    def launch(self) -> Launch:
        grid = (tiles(self.rows, SIDE) * tiles(self.columns, SIDE), 1, min(self.at.batch, MAX_GRID_Z))
        return Launch(grid, (THREADS, 1, 1))

    @property
    def numbers(self) -> tuple[int, ...]:
        """Parameters after the two addresses; pitches and strides in pairs of parts."""
        pitches = self.at.pitch, self.to.pitch // 2
        strides = self.at.stride, self.to.stride // 2
        flags = int(self.transposed), self.of_a, self.of_b
        return self.rows, self.columns, *pitches, *strides, self.at.batch, *flags

    @property
    def check_launch(self) -> Launch:
        count = self.at.batch * self.to.rows * self.to.columns
        return Launch((min(CHECK_BLOCKS, tiles(count, THREADS)), 1, 1), (THREADS, 1, 1))

    @property
    def check_numbers(self) -> tuple[int, ...]:
        """The parameters of `complex_check`, all counted in parts."""
        pitches = 2 * self.at.pitch, self.to.pitch
        strides = 2 * self.at.stride, self.to.stride
        flags = int(self.transposed), int(self.blocks), self.of_a, self.of_b
        return self.to.rows, self.to.columns, *pitches, *strides, self.at.batch, *flags


def rows_of_a(problem: Problem, at: Layout) -> Arrangement | None:
    """How the rows of A are rewritten; None if they can stay as they are."""
    if not problem.transpose_a:
        return None
    to = operand_layout(DTYPES[problem.dtype].real, (at.batch, problem.m, 2 * problem.k))
    return Arrangement(at, to, problem.m, problem.k, transposed=True, blocks=False)


def blocks_of_b(problem: Problem, at: Layout) -> Arrangement:
    to = operand_layout(DTYPES[problem.dtype].real, (at.batch, 2 * problem.k, 2 * problem.n))
    (_, of_b), (_, of_a) = signs_of(problem)
    return Arrangement(at, to, problem.k, problem.n, problem.transpose_b, True, of_a, of_b)


def conjugate(at: Layout) -> Arrangement:
    """The conjugates of a matrix as it is stored, for a library that conjugates transposes alone."""
    return Arrangement(at, real_layout(at), at.rows, at.columns, transposed=False, blocks=False, of_b=-1)


def finite_launch(real: Layout) -> Launch:
    """The launch of src/complex_finite.cu; `real` is what `real_layout` returns."""
    across, down = FINITE_BLOCKS
    lines = max(1, min(down, real.rows * real.batch))
    return Launch((max(1, min(across, tiles(real.columns, THREADS))), lines, 1), (THREADS, 1, 1))


def finite_numbers(real: Layout) -> tuple[int, ...]:
    """The parameters of src/complex_finite.cu after its two addresses."""
    return real.rows, real.columns, real.pitch, real.stride, real.batch


def arranged_bytes(problem: Problem) -> int:
    """Bytes of both operands in their new arrangement."""
    of_a, of_b = (problem.batch if batched else 1 for batched in (problem.a_batched, problem.b_batched))
    real = DTYPES[problem.dtype].real
    b = operand_layout(real, (of_b, 2 * problem.k, 2 * problem.n)).bytes
    return b + (operand_layout(real, (of_a, problem.m, 2 * problem.k)).bytes if problem.transpose_a else 0)
