"""What A·B of a random product is, element by element: small integers to the last bit, others within the bound of the
class and, where one is proven for them, within that. Products are given in stored form, (batch, m, n)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jobs.formats.elements import Array
from kernels.model.accuracy import SMALLEST_POSITIVE
from kernels.model.groups import Group, groups_of
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.demands import ToleranceKind
from tests.campaign.truth import truth_of, truth_of_scaled
from tests.stress.cases import Case
from tests.stress.given import Given
from tests.support.kernels.products import stored
from tests.support.scaled.operands import true_matrix
from worker.check.elements import as_exact, as_float64, core
from worker.device.scaled import ScaledOperand


def fault(case: Case, given: Given, c: Array, bound: tuple[ToleranceKind, float] | None = None) -> str | None:
    """What is wrong with A·B, in a sentence; None where nothing is. `bound`: what is proven of it."""
    if case.exact:
        return difference(c, stored(exact_product(case, given), case.problem.product_dtype), case.problem.product_dtype)
    worst = max(_excesses(case, given, c), default=0.0)
    if not worst <= 1.0:
        return f"an element is {worst:.3g} times as far off as its class {case.accuracy} allows."
    if bound is not None and not (worst := _beyond_proven(case, given, c, *bound)) <= 1.0:
        return f"an element is {worst:.3g} times as far off as is proven, {bound[0]}."
    return None


def exact_product(case: Case, given: Given) -> Array:
    """(batch, m, n) in float64 or complex128, of small integers."""
    problem = case.problem
    if isinstance(given.a, ScaledOperand) and isinstance(given.b, ScaledOperand):
        return _multiplied(problem, true_matrix(given.a), true_matrix(given.b))
    a, b = (as_exact(each, problem.dtype) for each in given.arrays)
    if not problem.group_sizes:
        return _multiplied(problem, a, b)
    each = [_multiplied(group.problem, a[rows_of(group)], b[group.index]) for group in groups_of(problem)]
    return np.concatenate([np.zeros((1, 0, problem.n), a.dtype), *each], axis=1)


def _multiplied(problem: Problem, a: Array, b: Array) -> Array:
    a = core(a.conj() if problem.conjugate_a else a, transposed=problem.transpose_a)
    b = core(b.conj() if problem.conjugate_b else b, transposed=problem.transpose_b)
    return np.broadcast_to(a @ b, (problem.batch, problem.m, problem.n))


def rows_of(group: Group) -> slice:
    return slice(group.first_row, group.first_row + group.problem.m)


def difference(c: Array, expected: Array, dtype: DTypeName) -> str | None:
    """What is wrong with elements that should be equal numbers, in a sentence; None where all are."""
    given, right = (as_exact(each, dtype) for each in (c, expected))
    places = np.argwhere(given != right)
    if not len(places):
        return None
    first = tuple(places[0])
    where = ", ".join(map(str, first))
    return (
        f"{len(places)} of {c.size} elements are wrong, the first at ({where}): {given[first]} where {right[first]} "
        "is right."
    )


def _excesses(case: Case, given: Given, c: Array) -> Iterator[float]:
    """Of each product, the largest error over its bound."""
    problem, accuracy = case.problem, case.accuracy
    if isinstance(given.a, ScaledOperand) and isinstance(given.b, ScaledOperand):
        truth = truth_of_scaled(problem, accuracy, true_matrix(given.a), true_matrix(given.b))
        yield truth.excess(c)
        return
    a, b = given.arrays
    if not problem.group_sizes:
        yield truth_of(problem, accuracy, a, b, quick=True).excess(c)
    for group in groups_of(problem):
        rows = rows_of(group)
        yield truth_of(group.problem, accuracy, a[rows], b[group.index], quick=True).excess(c[:, rows])


def _beyond_proven(case: Case, given: Given, c: Array, kind: ToleranceKind, bound: float) -> float:
    """The largest error over what is proven. The reference of float64 has longer numbers, for its own errors would
    count."""
    problem = case.problem
    wide = np.longdouble if problem.dtype == "float64" else np.float64
    arrays: list[Array] = [as_float64(each, problem.dtype).astype(wide, copy=False) for each in given.arrays]
    a, b = core(arrays[0], transposed=problem.transpose_a), core(arrays[1], transposed=problem.transpose_b)
    sizes: Array = np.abs(a) @ np.abs(b)
    if kind == "normwise":
        rows, columns = (np.sqrt(np.square(each).sum(axis=axis)).max(axis=-1) for each, axis in ((a, 2), (b, 1)))
        sizes = np.broadcast_to((rows * columns)[:, np.newaxis, np.newaxis], sizes.shape)
    off = np.abs(as_float64(c, problem.product_dtype) - a @ b)
    return float((off / (bound * sizes + SMALLEST_POSITIVE[problem.product_dtype])).max(initial=0.0))
