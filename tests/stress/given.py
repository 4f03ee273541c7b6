"""The operands of a random product, as a job has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isqrt

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.groups import groups_of
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.model.scales import SCALED_DTYPE, block_of, scale_shape
from tests.campaign.data import operands as of_kind
from tests.stress.cases import EXACT, PROVEN, SCALED, Case
from tests.stress.endings import Ending
from tests.stress.forms import PROVEN as MAGNITUDES
from tests.stress.forms import is_free
from tests.support.grouped.operands import grouped_operands
from tests.support.kernels.products import matrix, operands, stored
from tests.support.scaled.operands import scaled_operands, stored_shape
from worker.device.operands import HostOperand, StackedOperand, WidenedOperand
from worker.device.runner import Epilogue
from worker.device.scaled import ScaledOperand

SAME = "both operands"  # the id of a matrix that is multiplied by its own transpose
LARGEST = 8  # of small integers
# Sums of 8-bit floats that are not promoted keep 14 bits on an H100 and an H200. Those of small integers stay far
# below, but a row times itself has no terms that cancel.
EXACT_FLOAT8_SUM = 1 << 13
EXACT_SCALES = (0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0)  # by which sums of small integers stay exact in float32
Pair = tuple[HostOperand, HostOperand]


@dataclass(frozen=True, slots=True)
class Given:
    a: HostOperand
    b: HostOperand
    epilogue: Epilogue | None

    @property
    def arrays(self) -> tuple[Array, Array]:
        """A and B as they are multiplied, before transposition."""
        return self.a.elements, self.b.elements


def given(case: Case, rng: np.random.Generator) -> Given:
    make = _OF_FORM.get(case.form, _plain) if not case.drawn.scale_width else _scaled
    a, b = make(case, rng)
    return Given(a, b, None if case.drawn.ending is None else _epilogue(case, case.drawn.ending, rng))


def outlined(case: Case) -> Given:
    """The same without elements: what a kernel is chosen by."""
    problem, asked = case.problem, case.drawn.ending
    dtype = case.drawn.stored or problem.dtype
    a, b = (_outline(stored_shape(problem, name), dtype) for name in "ab")
    if case.drawn.stored is not None:
        a, b = (WidenedOperand(each, dtype, is_free=is_free(case.kernel, problem.dtype)) for each in (a, b))
    if asked is None:
        return Given(a, b, None)
    c, bias = (_outline((1, 1), problem.product_dtype) if each else None for each in (asked.c, asked.bias))
    return Given(a, b, _as_asked(asked, c, bias))


def _outline(shape: tuple[int, ...], dtype: DTypeName) -> HostOperand:
    return HostOperand(np.broadcast_to(np.zeros((), STORAGE_DTYPES[dtype]), shape))


def _plain(case: Case, rng: np.random.Generator) -> Pair:
    a, b = _matrices(case, case.problem, rng)
    return HostOperand(a), HostOperand(b)


def _matrices(case: Case, problem: Problem, rng: np.random.Generator) -> tuple[Array, Array]:
    if case.data == EXACT:
        return _integers(problem, rng)
    if case.data == PROVEN:
        a, b = operands(problem, rng)
        return _within(a, problem, rng), _within(b, problem, rng)
    return of_kind(problem, case.data, rng, case.accuracy)


def _integers(problem: Problem, rng: np.random.Generator) -> tuple[Array, Array]:
    largest = LARGEST
    if problem.symmetric and problem.dtype == SCALED_DTYPE:
        largest = min(largest, isqrt(EXACT_FLOAT8_SUM // problem.k))
    a, b = (_some_integers(stored_shape(problem, name), problem.dtype, rng, largest) for name in "ab")
    return a, b


def _some_integers(shape: tuple[int, ...], dtype: DTypeName, rng: np.random.Generator, largest: int = LARGEST) -> Array:
    """Of complex numbers both parts."""
    ends = -largest, largest
    drawn = [rng.integers(*ends, shape, np.int8, endpoint=True) for _ in range(1 + DTYPES[dtype].is_complex)]
    return stored(drawn[0] + 1j * drawn[1] if len(drawn) > 1 else drawn[0], dtype)


def _within(like: Array, problem: Problem, rng: np.random.Generator) -> Array:
    """Of the magnitudes for which a bound was asked, inside of which types round."""
    lowest, highest = np.log2(MAGNITUDES.smallest) + 0.2, np.log2(MAGNITUDES.largest) - 0.2
    return stored(np.exp2(rng.uniform(lowest, highest, like.shape)) * rng.choice((-1, 1), like.shape), problem.dtype)


def _symmetric(case: Case, rng: np.random.Generator) -> Pair:
    x, _ = _matrices(case, case.problem, rng)
    return HostOperand(x, SAME), HostOperand(x, SAME)


def _grouped(case: Case, rng: np.random.Generator) -> Pair:
    problem = case.problem
    a, b = grouped_operands(problem, rng, "integers")
    if not case.exact:
        for group in groups_of(problem):
            rows = slice(group.first_row, group.first_row + group.problem.m)
            a[rows], b[group.index] = of_kind(group.problem, case.data, rng, case.accuracy)
    return HostOperand(a), HostOperand(b)


def _stacked(case: Case, rng: np.random.Generator) -> Pair:
    """Those of each job; smaller ones are padded with zeros where they are stacked."""
    problem, ragged = case.problem, case.drawn.ragged
    a, b = _matrices(case, problem, rng)
    of_a, of_b = [], []
    for item in range(problem.batch):
        m, n = (int(rng.integers(1, size + 1)) if ragged and item else size for size in (problem.m, problem.n))
        of_a.append(a[item, :, :m] if problem.transpose_a else a[item, :m])
        of_b.append(b[item, :n] if problem.transpose_b else b[item, :, :n])
    stacks = (StackedOperand([HostOperand(np.ascontiguousarray(each)) for each in items]) for items in (of_a, of_b))
    return next(stacks), next(stacks)


def _widened(case: Case, rng: np.random.Generator) -> Pair:
    dtype = case.drawn.stored
    assert dtype is not None
    a, b = _matrices(case, replace(case.problem, dtype=dtype), rng)
    free = is_free(case.kernel, case.problem.dtype)
    return WidenedOperand(HostOperand(a), dtype, is_free=free), WidenedOperand(HostOperand(b), dtype, is_free=free)


def _scaled(case: Case, rng: np.random.Generator) -> Pair:
    a, b = scaled_operands(case.problem, rng, case.drawn.scale_width)
    if not case.exact:
        assert case.data == SCALED
        return a, b
    plain = _integers(case.problem, rng)
    widths = case.drawn.scale_width, case.problem.scale_columns
    each = zip("ab", plain, widths, (case.problem.transpose_a, case.problem.transpose_b), strict=True)
    made = (_with_exact_scales(name, elements, width, rng, is_across) for name, elements, width, is_across in each)
    return next(made), next(made)


def _with_exact_scales(
    name: str, elements: Array, width: int, rng: np.random.Generator, transposed: bool
) -> ScaledOperand:
    block = block_of(name, width, transposed=transposed)
    scales = rng.choice(np.array(EXACT_SCALES, np.float32), scale_shape(elements.shape, block))
    return ScaledOperand(HostOperand(elements), HostOperand(scales), block)


_OF_FORM: Mapping[str, Callable[[Case, np.random.Generator], Pair]] = {
    "symmetric": _symmetric,
    "grouped": _grouped,
    "stacked": _stacked,
    "widened": _widened,
}


def _epilogue(case: Case, asked: Ending, rng: np.random.Generator) -> Epilogue:
    problem, dtype = case.problem, case.problem.product_dtype
    shapes = {"one": (problem.m, problem.n), "each": problem.product_shape}
    shapes |= {"row": (1, problem.n), "column": (problem.m, 1)}
    c, bias = (
        HostOperand(_some_integers(shapes[each], dtype, rng) if case.exact else matrix(shapes[each], dtype, rng))
        if each
        else None
        for each in (asked.c, asked.bias)
    )
    return _as_asked(asked, c, bias)


def _as_asked(asked: Ending, c: HostOperand | None, bias: HostOperand | None) -> Epilogue:
    factors = asked.alpha, asked.beta
    return Epilogue(*factors, c, bias, asked.activation, asked.output, may_fuse=asked.may_fuse)
