"""`strassen` where it is made of seven products: halves of all lengths, batches, and matrices that keep to the ordinary
way, on the CPU under sanitizers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.entries.strassen import FACTORS
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from tests.emulation.launches import Memory, Run, execute
from tests.emulation.products import Case, LayoutName, after_passes, numbers, product, run_of
from tests.emulation.programs import Compiled, Emulator
from tests.emulation.variants import TRANSPOSES
from tests.support.kernels.catalogue import cuda_kernel
from tests.support.kernels.products import assert_right, operands
from worker.cuda.sources import kernel_program

PLAIN = Problem(1, 1, 1, "float32")
# Halves alike; of no two sides alike; a second half of one; several tiles of a quarter, and parts of them.
SIZES = ((64, 64, 64), (65, 71, 70), (69, 66, 73), (270, 530, 65))
LAYOUTS: tuple[LayoutName, ...] = ("aligned", "odd", "shifted", "aligned")
BATCHED = ((True, True), (True, False), (False, True))


STRASSEN, PIPELINED = cuda_kernel("strassen"), cuda_kernel("pipelined")
CONFIG = STRASSEN.resolve_config({"min_side": 64})
SAME_TILES = {p.name: CONFIG[p.name] for p in PIPELINED.parameters}


def compiled(emulator: Emulator, kernel: CudaKernel, config: TileConfig, problem: Problem, symbol: str) -> Compiled:
    kind = replace(PLAIN, transpose_a=problem.transpose_a, transpose_b=problem.transpose_b)
    return emulator.compile(kernel_program(kernel, config, kind), symbol)


def prepared(sums: Compiled, cases: Sequence[Case], runs: Sequence[Run]) -> list[Run]:
    """With the sums written."""
    return after_passes(STRASSEN, CONFIG, cases, runs, lambda _name: sums)


def given(run: Run, a: Array, b: Array) -> Run:
    """The same launch with other operands."""
    of_a, of_b, *others = run.memories
    memories: tuple[Memory, ...] = (replace(of_a, contents=a.tobytes()), replace(of_b, contents=b.tobytes()), *others)
    return replace(run, memories=memories)


def cases(transposes: tuple[bool, bool]) -> Iterator[Case]:
    for (m, n, k), layout in zip(SIZES, LAYOUTS, strict=True):
        yield Case(Problem(m, n, k, "float32", 1, *transposes), (layout,) * 3)
    for batched in BATCHED:
        yield Case(Problem(66, 67, 68, "float32", 2, *transposes, *batched), ("odd",) * 3)
        yield Case(Problem(66, 67, 68, "float32", 3, *transposes, *batched), ("staggered", "aligned", "aligned"))


@pytest.mark.parametrize("transposes", TRANSPOSES, ids=str)
def test_seven_products_make_the_one(transposes: tuple[bool, bool], emulator: Emulator) -> None:
    todo = list(cases(transposes))
    runs = [run_of(STRASSEN, CONFIG, case, order) for order, case in enumerate(todo)]
    assert all(run.launch.grid[2] == FACTORS * case.problem.batch for run, case in zip(runs, todo, strict=True))
    main, sums = (compiled(emulator, STRASSEN, CONFIG, todo[0].problem, name) for name in ("strassen", "strassen_sums"))
    found = execute(main, prepared(sums, todo, runs))
    for case, (c,) in zip(todo, found, strict=True):
        np.testing.assert_array_equal(c, product(case.problem, case.data), str(case))


@pytest.fixture(scope="module")
def compiled_ones(emulator: Emulator, pool: Executor) -> tuple[Compiled, Compiled, Compiled]:
    """The sums, `strassen`, and `pipelined`, for operands as they are stored."""
    kernels = (
        (STRASSEN, CONFIG, "strassen_sums"),
        (STRASSEN, CONFIG, "strassen"),
        (PIPELINED, SAME_TILES, "pipelined"),
    )
    under_way = [pool.submit(compiled, emulator, kernel, config, PLAIN, name) for kernel, config, name in kernels]
    sums, ours, ordinary = (each.result() for each in under_way)
    return sums, ours, ordinary


def test_the_order_of_blocks_changes_no_bit(compiled_ones: tuple[Compiled, Compiled, Compiled]) -> None:
    """Whichever of a tile's seven blocks comes last."""
    sums, ours, _ = compiled_ones
    problem = Problem(290, 140, 100, "float32")
    todo = [Case(problem, ("odd",) * 3, "normal")] * 3
    runs = [run_of(STRASSEN, CONFIG, case, order) for order, case in enumerate(todo)]
    (first,), *others = execute(ours, prepared(sums, todo, runs))
    assert_right(problem, *numbers(problem, "normal"), first[0])
    for (other,) in others:
        np.testing.assert_array_equal(other, first)


def spoilt(what: str, a: Array, b: Array) -> None:
    """In place, one product's operands: where one element, or their size, is not for halves."""
    match what:
        case "infinity":
            a[69, 1] = np.inf
        case "nan":
            b[3, 138] = np.nan
        case "large elements of A":
            a *= np.float32(5e37)
            b *= np.float32(1e-30)
        case "large elements of B":
            a *= np.float32(1e-30)
            b *= np.float32(5e37)
        case _:
            a *= np.float32(2e17)
            b *= np.float32(2e18)


@pytest.mark.parametrize("what", ["infinity", "nan", "large elements of A", "large elements of B", "large terms"])
def test_what_halves_cannot_carry_is_multiplied_as_pipelined_does(
    what: str, compiled_ones: tuple[Compiled, Compiled, Compiled]
) -> None:
    """To the last bit; and the other products of the batch by halves, which are other bits."""
    sums, ours, ordinary = compiled_ones
    problem = Problem(70, 139, 90, "float32", 3, False, False, True, True)
    a, b = (np.abs(x) + np.float32(0.5) for x in operands(problem, np.random.default_rng(1)))
    spoilt(what, a[1], b[1])
    case = Case(problem, ("odd",) * 3)
    run = given(run_of(STRASSEN, CONFIG, case, 5), a, b)
    ((c,),) = execute(ours, prepared(sums, [case], [run]))
    ((expected,),) = execute(ordinary, [given(run_of(PIPELINED, SAME_TILES, case, 2), a, b)])
    assert [bool(np.array_equal(c[item], expected[item], equal_nan=True)) for item in range(3)] == [False, True, False]
    assert np.isfinite(expected[1]).all() == what.startswith("large")


@pytest.mark.parametrize("batched", BATCHED[1:], ids=str)
def test_an_operand_of_all_products_makes_all_of_them_ordinary(
    batched: tuple[bool, bool], compiled_ones: tuple[Compiled, Compiled, Compiled]
) -> None:
    sums, ours, ordinary = compiled_ones
    problem = Problem(70, 139, 90, "float32", 2, False, False, *batched)
    a, b = operands(problem, np.random.default_rng(2))
    (b if batched[0] else a)[7, 8] = np.nan
    case = Case(problem, ("odd",) * 3)
    ((c,),) = execute(ours, prepared(sums, [case], [given(run_of(STRASSEN, CONFIG, case, 5), a, b)]))
    ((expected,),) = execute(ordinary, [given(run_of(PIPELINED, SAME_TILES, case, 2), a, b)])
    np.testing.assert_array_equal(c, expected)
