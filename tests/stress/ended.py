"""Whether what follows A·B is right in every element: in a pass behind the product, or done by its kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.activations import FLOAT32
from kernels.model.numerics import DTYPES, DTypeName
from tests.stress.cases import Case
from tests.stress.given import Given
from tests.stress.reference import difference, exact_product, fault
from tests.support.kernels.products import stored
from worker.check.elements import as_float64, core
from worker.check.elementwise import Added, Operands, worst_of_rows
from worker.check.epilogue import After, wrong_elements
from worker.check.host_matrix import HostMatrix
from worker.check.verify import delivered_rounding
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, operands_as_checked


@dataclass(frozen=True, slots=True)
class Ended:
    """D, and what it is made of: A·B or, where the kernel does the epilogue, its sums before the activation."""

    d: Array
    sums: Array
    is_fused: bool


def ending_fault(case: Case, given: Given, epilogue: Epilogue, ended: Ended) -> str | None:
    """What is wrong with the product, in a sentence; None where nothing is."""
    if ended.is_fused:
        return _fused_fault(case, given, epilogue, ended)
    if (said := fault(case, given, ended.sums)) is not None:
        return f"before its epilogue {said}"
    problem = case.problem
    c = None if epilogue.c is None else core(epilogue.c.elements, transposed=False)
    factors = epilogue.alpha, epilogue.beta
    return _wrong(wrong_elements(ended.d, ended.sums, c, *factors, problem.product_dtype, epilogue.after))


def _fused_fault(case: Case, given: Given, epilogue: Epilogue, ended: Ended) -> str | None:
    output = epilogue.output_of(case.problem)
    if case.exact:
        said = difference(ended.sums, stored(_exact_sums(case, given, epilogue), output), output)
    else:
        worst = _worst_of_sums(case, given, epilogue, ended.sums)
        said = None if worst <= 1.0 else f"an element is {worst:.3g} times as far off as its class allows."
    if said is not None:
        return f"before its activation, {said}"
    after = After(None, epilogue.activation, None, FLOAT32)
    return _wrong(wrong_elements(ended.d, ended.sums, None, 1.0, 0.0, output, after))


def _wrong(count: int) -> str | None:
    return f"{count} elements do not follow from those before the epilogue." if count else None


def _exact_sums(case: Case, given: Given, epilogue: Epilogue) -> Array:
    sums = epilogue.alpha.real * exact_product(case, given)
    for factor, operand in _addends(epilogue):
        sums = sums + factor * as_float64(core(operand.elements, transposed=False), case.problem.product_dtype)
    return sums


def _worst_of_sums(case: Case, given: Given, epilogue: Epilogue, sums: Array) -> float:
    """The largest error over the bound of a sum that is rounded once (docs/decisions/0064)."""
    problem, output = case.problem, epilogue.output_of(case.problem)
    plain = operands_as_checked(problem, given.a, given.b, np.zeros(problem.product_shape, np.float32))
    terms = [
        (factor, HostMatrix(core(operand.elements, transposed=False), problem.product_dtype))
        for factor, operand in _addends(epilogue)
    ]
    assert not problem.group_sizes
    whole = plain.elementwise
    operands = Operands(whole.a, whole.b, HostMatrix(sums, output), Added(epilogue.alpha.real, tuple(terms)))
    rounding = delivered_rounding(problem, case.accuracy, (epilogue.alpha.real, output))
    rows = np.arange(problem.m)
    return max((worst_of_rows(operands, item, rows, rounding) for item in range(problem.batch)), default=0.0)


def _addends(epilogue: Epilogue) -> list[tuple[float, HostOperand]]:
    both = ((epilogue.beta.real, epilogue.c), (1.0, epilogue.bias))
    return [(factor, operand) for factor, operand in both if operand is not None]


def sums_of(dtype: DTypeName, elementwise: Operands) -> Array:
    """What the check has read as the product, (batch, m, n), in stored form."""
    batch, m, n = elementwise.c.shape
    rows, columns = np.arange(m)[:, np.newaxis], np.arange(n)
    whole = np.stack([elementwise.c.elements(item, rows, columns) for item in range(batch)])
    if DTYPES[dtype].is_complex:  # of its parts
        return np.ascontiguousarray(whole.astype(DTYPES[dtype].real)).view(STORAGE_DTYPES[dtype])
    with np.errstate(all="ignore"):
        return stored(whole, dtype)
