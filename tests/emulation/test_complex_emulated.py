"""Complex matrices on their way into real products, in the emulation, against the host's; and alpha·P + beta·C."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np
import pytest

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.emulation import launches
from tests.emulation.launches import Memory, Run, execute
from tests.emulation.programs import Compiled, Emulator
from tests.support.kernels.products import matrix
from worker.check.elements import core
from worker.check.views.as_real import in_blocks, real_view, signs_of
from worker.cpu.epilogue import add_epilogue
from worker.cuda.complex.arrangement import (
    Arrangement,
    blocks_of_b,
    conjugate,
    finite_launch,
    finite_numbers,
    real_layout,
    rows_of_a,
)
from worker.cuda.complex.epilogue import complex_epilogue_launch
from worker.cuda.epilogue.plan import sizes
from worker.cuda.pitch import Layout, operand_layout
from worker.cuda.sources import (
    complex_check_program,
    complex_finite_program,
    complex_layout_program,
    epilogue_program,
)
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue

HERE: tuple[DTypeName, ...] = ("complex64", "complex128")
OF_EPILOGUE = ("complex_epilogue", "complex_epilogue_check")
FUNCTIONS = ("complex_rows", "complex_blocks", "complex_check", "complex_finite", *OF_EPILOGUE)
OTHER_PROGRAMS = {"complex_check": complex_check_program, "complex_finite": complex_finite_program}
Kernels = Mapping[tuple[DTypeName, str], Compiled]


@pytest.fixture(scope="module")
def kernels(emulator: Emulator, pool: Executor) -> Kernels:
    def compiled(asked: tuple[DTypeName, str]) -> Compiled:
        dtype, name = asked
        part = DTYPES[dtype].real
        if name in OF_EPILOGUE:
            return emulator.compile(epilogue_program(dtype), name)
        return emulator.compile(OTHER_PROGRAMS.get(name, complex_layout_program)(part), name)

    asked = [*itertools.product(HERE, FUNCTIONS)]
    return dict(zip(asked, pool.map(compiled, asked), strict=True))


def lying(elements: Array, at: Layout) -> Memory:
    """As it lies there: (items, rows, columns)."""
    return Memory(
        elements.shape, elements.dtype, launches.Layout(at.pitch, at.pitch * at.kept_rows), elements.tobytes()
    )


def room(at: Layout) -> Memory:
    shape = at.batch, at.rows, at.columns
    dtype = np.dtype(STORAGE_DTYPES[at.dtype])
    return Memory(shape, dtype, launches.Layout(at.pitch, at.pitch * at.kept_rows), is_result=True)


def arranged(kernels: Kernels, how: Arrangement, elements: Array, order: int = 0) -> tuple[Array, Array]:
    """By the function that products go through, and by the check's."""
    dtype = how.at.dtype
    plain = Run(how.launch, (lying(elements, how.at), room(how.to)), how.numbers, order)
    ((made,),) = execute(kernels[dtype, how.function], [plain])
    parts = replace(how.at, columns=2 * how.at.columns, pitch=2 * how.at.pitch)
    check = Run(how.check_launch, (lying(real_view(elements), parts), room(how.to)), how.check_numbers, order)
    ((checked,),) = execute(kernels[dtype, "complex_check"], [check])
    return made, checked


@pytest.mark.parametrize("dtype", HERE)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("conjugates", [*itertools.product([False, True], repeat=2)])
def test_b_becomes_blocks(kernels: Kernels, dtype: DTypeName, transposed: bool, conjugates: tuple[bool, bool]) -> None:
    for order, (k, n, batch) in enumerate([(5, 3, 1), (33, 65, 2), (1, 1, 3)]):
        problem = Problem(4, n, k, dtype, batch, False, transposed, False, batch > 1, *conjugates)
        shape = (batch, n, k) if transposed else (batch, k, n)
        b = matrix(shape, dtype, np.random.default_rng(order))
        how = blocks_of_b(problem, operand_layout(dtype, shape))
        made, checked = arranged(kernels, how, b, order)
        expected = in_blocks(core(b, transposed=transposed), signs_of(problem))
        np.testing.assert_array_equal(made, expected)
        np.testing.assert_array_equal(checked, expected)


@pytest.mark.parametrize("dtype", HERE)
def test_a_is_transposed_and_conjugated(kernels: Kernels, dtype: DTypeName) -> None:
    a = matrix((2, 37, 40), dtype, np.random.default_rng(1))
    at = operand_layout(dtype, a.shape)
    how = rows_of_a(Problem(40, 3, 37, dtype, 2, transpose_a=True, a_batched=True), at)
    assert how is not None and rows_of_a(Problem(37, 3, 40, dtype), at) is None
    made, checked = arranged(kernels, how, a, 2)
    expected = real_view(np.ascontiguousarray(a.swapaxes(1, 2)))
    np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(checked, expected)
    plain = conjugate(at)
    ((made,),) = execute(
        kernels[dtype, "complex_rows"], [Run(plain.launch, (lying(a, at), room(plain.to)), plain.numbers)]
    )
    np.testing.assert_array_equal(made, real_view(a.conj()))


@pytest.mark.parametrize("dtype", HERE)
def test_one_part_that_is_not_finite_is_found(kernels: Kernels, dtype: DTypeName) -> None:
    """In any item, row and column; what pads rows does not count."""
    shape, rng = (3, 40, 300), np.random.default_rng(6)
    at = real_layout(operand_layout(dtype, shape))
    assert at.pitch > at.columns

    def found(elements: Array) -> bool:
        given, word = lying(real_view(elements), at), Memory.flat(np.zeros(1, np.uint32), is_result=True)
        ((made,),) = execute(
            kernels[dtype, "complex_finite"], [Run(finite_launch(at), (given, word), finite_numbers(at))]
        )
        return bool(made.any())

    whole = matrix(shape, dtype, rng)
    assert not found(whole)
    for place, value in (((2, 39, 299), 1j * np.inf), ((0, 0, 0), np.nan), ((1, 17, 200), complex(-np.inf, 1))):
        spoilt = whole.copy()
        spoilt[place] = value
        assert found(spoilt)


FACTORS = [(2.0, 0.0), (0.5 - 1.25j, 1j), (0.0, -3 + 0.1j), (1j, 1.0), (-0.75j, 0.3)]


@pytest.mark.parametrize("dtype", HERE)
@pytest.mark.parametrize("factors", FACTORS)
def test_alpha_p_and_beta_c(kernels: Kernels, dtype: DTypeName, factors: tuple[complex, complex]) -> None:
    rng = np.random.default_rng(5)
    p, c = (matrix((2, 9, 70), dtype, rng) for _ in range(2))
    p[0, 1, 2], c[1, 3, 4] = complex(np.nan, 1), complex(2, -np.inf)
    layouts = operand_layout(dtype, p.shape), operand_layout(dtype, c.shape), operand_layout(dtype, p.shape, dense=True)
    parts = [part for each in factors for part in (complex(each).real, complex(each).imag)]
    numbers = (*sizes(*layouts), *np.array(parts).view(np.int64).tolist())
    launch = complex_epilogue_launch(layouts[2])
    given = lying(p, layouts[0]), lying(c, layouts[1])
    ((d,),) = execute(kernels[dtype, "complex_epilogue"], [Run(launch, (*given, room(layouts[2])), numbers)])
    problem = Problem.in_batch(9, 70, 1, dtype, 2)
    operand = HostOperand(c) if factors[1] else None
    expected = add_epilogue(problem, Epilogue(*factors, operand), p).reshape(p.shape)
    np.testing.assert_array_equal(real_view(d.reshape(p.shape)), real_view(expected))

    def wrong(spoilt: Array) -> int:
        count = Memory.flat(np.zeros(1, np.uint64), is_result=True)
        at = [replace(each, columns=2 * each.columns, pitch=2 * each.pitch) for each in layouts]
        memories = [lying(real_view(each), lay) for each, lay in zip((p, c, spoilt), at, strict=True)]
        ((found,),) = execute(kernels[dtype, "complex_epilogue_check"], [Run(launch, (*memories, count), numbers)])
        return int(found.reshape(-1)[0])

    assert wrong(expected) == 0
    for part in (0, 1):
        spoilt = expected.copy()
        bits = real_view(spoilt).view(f"u{spoilt.itemsize // 2}")
        bits[1, 8, 2 * 69 + part] ^= bits.dtype.type(1)
        assert wrong(spoilt) == 1
