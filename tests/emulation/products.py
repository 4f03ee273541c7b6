"""Products for the emulation: sizes, how the matrices lie, and what must come out, to the last bit."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.launch_plan import Launch, Workspace
from kernels.model.numerics import DTYPES, Problem
from tests.emulation.launches import Layout, Memory, Run, execute
from tests.emulation.programs import Compiled
from tests.support.kernels.products import operands, stored
from worker.check.elements import as_float64, core

# How a matrix lies: its rows one after the other; apart by an odd number of elements; each at a multiple of RUN_BYTES;
# all at one element past such; so in the first matrix of a batch alone; so far apart that 32 bits do not count it.
LayoutName = Literal["tight", "odd", "aligned", "shifted", "staggered", "vast"]
# Whole: floats are small integers, so that sums are exact in any order, and integers are any, so that sums wrap.
# Infinite: ones and infinities, whose product is never NaN. Normal: any floats, whose sums are rounded.
DataName = Literal["whole", "infinite", "normal"]
RUN_BYTES = 16  # of the widest load
VAST_PITCH = 2**32 + 32  # elements
SIZES: tuple[tuple[tuple[int, int, int], tuple[LayoutName, ...]], ...] = (
    ((1, 1, 1), ("odd",)),
    ((1, 70, 1), ("aligned",)),
    ((3, 5, 7), ("odd", "aligned")),
    ((31, 33, 65), ("odd", "aligned")),
    ((65, 64, 63), ("odd", "aligned")),
    ((127, 129, 31), ("aligned",)),
    ((5, 6, 0), ("odd",)),
)


@dataclass(frozen=True, slots=True)
class Case:
    problem: Problem
    layouts: tuple[LayoutName, LayoutName, LayoutName]  # of A, B and C
    data: DataName = "whole"
    grid_z: int | None = None  # fewer blocks than matrices, so that each does several
    multiprocessors: int = 3  # for resident blocks


def cases(kernel: CudaKernel, config: TileConfig, kind: Problem) -> Iterator[Case]:
    """`kind` says element type and transpositions."""
    for (m, n, k), layouts in SIZES:
        for layout in layouts:
            yield Case(replace(kind, m=m, n=n, k=k), (layout,) * 3)
    yield from _whole_tiles(*tile_of(kernel, config), kind)
    yield from _batches(replace(kind, m=9, n=34, k=35))
    if not DTYPES[kind.dtype].is_integer and kind.dtype != "float8_e4m3":  # which has no infinities
        yield Case(replace(kind, m=9, n=10, k=11), ("odd",) * 3, "infinite")
        yield Case(replace(kind, m=9, n=10, k=11), ("aligned",) * 3, "infinite")


def _whole_tiles(rows: int, columns: int, kind: Problem) -> Iterator[Case]:
    """At least one tile of the product lies in its interior."""
    whole = replace(kind, m=rows, n=columns, k=64)
    yield Case(replace(whole, batch=2, a_batched=True, b_batched=True), ("tight",) * 3, grid_z=1)
    yield Case(whole, ("shifted", "aligned", "aligned"))
    yield Case(whole, ("aligned", "shifted", "aligned"))
    yield Case(whole, ("aligned", "aligned", "shifted"))
    yield Case(replace(kind, m=rows + 1, n=columns + 3, k=130), ("aligned",) * 3)
    yield Case(replace(kind, m=rows + 1, n=columns + 3, k=64), ("vast",) * 3)


def _batches(one: Problem) -> Iterator[Case]:
    yield Case(replace(one, batch=3, a_batched=True, b_batched=True), ("staggered", "aligned", "aligned"), grid_z=2)
    yield Case(replace(one, batch=3, a_batched=True), ("odd",) * 3, grid_z=2)
    yield Case(replace(one, batch=3, b_batched=True), ("aligned", "staggered", "staggered"), grid_z=2)
    yield Case(replace(one, batch=2, a_batched=True, b_batched=True), ("vast",) * 3)


def tile_of(kernel: CudaKernel, config: TileConfig) -> tuple[int, int]:
    """Rows and columns of the product that one block computes, as the grid tells."""

    def blocks(m: int, n: int) -> int:
        return kernel.plan(Problem(m, n, 1, "float32"), config).main.grid[0]

    one = blocks(1, 1)
    rows = next(m for m in range(1, 2048) if blocks(m + 1, 1) > one)
    return rows, next(n for n in range(1, 2048) if blocks(1, n + 1) > one)


@cache
def numbers(problem: Problem, data: DataName) -> tuple[Array, Array]:
    """A and B as they are stored."""
    rng = np.random.default_rng(zlib.crc32(repr(problem).encode()))
    if data == "infinite":
        shapes = (x.shape for x in operands(problem, rng))
        a, b = (stored(np.where(rng.random(shape) < 0.3, np.inf, 1.0), problem.dtype) for shape in shapes)
        return a, b
    return operands(problem, rng, "integers" if data == "whole" and not DTYPES[problem.dtype].is_integer else "normal")


@cache
def product(problem: Problem, data: DataName) -> Array:
    """The product to the last bit, of whole or infinite numbers."""
    stored_a, stored_b = numbers(problem, data)
    a, b = core(stored_a, transposed=problem.transpose_a), core(stored_b, transposed=problem.transpose_b)
    if DTYPES[problem.dtype].is_integer:
        wrapping: Array = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
        return wrapping
    with np.errstate(invalid="ignore"):  # BLAS may touch infinities where it pads
        exact = as_float64(a, problem.dtype) @ as_float64(b, problem.dtype)
    assert not np.isnan(exact).any()
    return stored(exact, problem.product_dtype)


def layout_of(name: LayoutName, shape: tuple[int, ...], itemsize: int) -> Layout:
    """Of (matrices, rows, columns)."""
    _, rows, columns = shape
    group = RUN_BYTES // itemsize
    match name:
        case "tight":
            return Layout(columns, rows * columns)
        case "odd":
            return Layout(columns + 3, rows * (columns + 3) + 1)
        case "vast":
            return Layout(VAST_PITCH, rows * VAST_PITCH)
    pitch = (columns // group + 2) * group
    return Layout(pitch, rows * pitch + (name == "staggered"), offset=int(name == "shifted"))


def run_of(kernel: CudaKernel, config: TileConfig, case: Case, order: int) -> Run:
    problem, matrices = case.problem, _matrices(case)
    at = [memory.layout for memory in matrices]
    batched = (problem.a_batched, problem.b_batched, problem.batch > 1)
    strides = (one.stride if many else 0 for one, many in zip(at, batched, strict=True))
    sizes = (problem.m, problem.n, problem.k, *(one.pitch for one in at), *strides, problem.batch)
    plan = kernel.plan(problem, config)
    launch = replace(plan.main, grid=plan.main.on(case.multiprocessors))
    if case.grid_z is not None:
        launch = replace(launch, grid=(*launch.grid[:2], min(case.grid_z, launch.grid[2])))
    return Run(launch, (*matrices, *_workspace(plan.workspace)), sizes, order, case)


def after_passes(
    kernel: CudaKernel,
    config: TileConfig,
    todo: Sequence[Case],
    runs: Sequence[Run],
    compiled: Callable[[str], Compiled],
) -> list[Run]:
    """The same launches, each with the workspace as the kernel's passes leave it. `compiled` gives a pass by name."""
    ready = list(runs)
    passes = [kernel.plan(case.problem, config).passes for case in todo]
    for turn in range(max(map(len, passes))):
        places = [place for place, each in enumerate(passes) if turn < len(each)]
        (name,) = {passes[place][turn].name for place in places}
        found = execute(compiled(name), [_before(ready[place], passes[place][turn].launch) for place in places])
        for place, (_, workspace) in zip(places, found, strict=True):
            *matrices, kept = ready[place].memories
            kept = replace(kept, contents=workspace.tobytes())
            ready[place] = replace(ready[place], memories=(*matrices, kept))
    return ready


def _before(run: Run, launch: Launch) -> Run:
    """A pass with the kernel's arguments, that gives the workspace too."""
    *matrices, workspace = run.memories
    return replace(run, launch=launch, memories=(*matrices, replace(workspace, is_result=True)))


def _matrices(case: Case) -> tuple[Memory, Memory, Memory]:
    problem = case.problem
    a, b = (core(x, transposed=False) for x in numbers(problem, case.data))
    c = np.empty((problem.batch, problem.m, problem.n), STORAGE_DTYPES[problem.product_dtype])
    of_a, of_b, of_c = (
        Memory(x.shape, x.dtype, layout_of(name, x.shape, x.itemsize))
        for x, name in zip((a, b, c), case.layouts, strict=True)
    )
    return replace(of_a, contents=a.tobytes()), replace(of_b, contents=b.tobytes()), replace(of_c, is_result=True)


def _workspace(need: Workspace | None) -> tuple[Memory, ...]:
    if need is None:
        return ()
    return (Memory((1, 1, need.bytes), np.dtype(np.uint8), Layout(need.bytes, 0), bytes(need.zeroed_bytes)),)
