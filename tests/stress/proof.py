"""One product of `make stress`, and whether it is right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.selection.candidates import Choice
from tests.stress.asked import chosen, computed, delivered, own_epilogue
from tests.stress.cases import Case
from tests.stress.ended import Ended, ending_fault, sums_of
from tests.stress.given import Given, given
from tests.stress.reference import fault
from worker.check.grouped import GroupedProduct
from worker.check.verify import check
from worker.device.runner import Epilogue, Product, Runner

NOTHING = Epilogue(1.0, 0.0, None)


@dataclass(frozen=True, slots=True)
class _Found:
    """What the service's own check says of a product, and what it delivers, (batch, m, n)."""

    said: str | None
    c: Array
    ended: Ended | None  # where more than A·B was asked for, or a kernel's own sums


def wrong(runner: Runner, case: Case, seed: int) -> str | None:
    """What is wrong with it, in a sentence; None where nothing is.

    It is checked as every product of the service is. Then each element is compared with a reference (`reference.py`; of
    epilogues `ended.py`), so that one wrong element is found wherever it is. Products of small integers are exact in
    every class: all partial sums are integers that float32 holds, and one rounding to the product's type is left.
    """
    rng = np.random.default_rng((seed, case.number))
    asked = given(case, rng)
    choice, bound = chosen(runner, case, asked)
    found = _found(runner, case, choice, asked, rng)
    if found.said is not None:
        return found.said
    if found.ended is not None:
        return ending_fault(case, asked, asked.epilogue or NOTHING, found.ended)
    if (said := fault(case, asked, found.c, bound)) is not None:
        return said
    if case.form == "reproducible":
        again = _found(runner, case, choice, asked, rng)
        return None if again.c.tobytes() == found.c.tobytes() else "it has other bits when it is computed again."
    return None


def _found(runner: Runner, case: Case, choice: Choice, asked: Given, rng: np.random.Generator) -> _Found:
    problem, epilogue = case.problem, asked.epilogue
    is_fused = own_epilogue(case, runner.device.traits) is not None
    dtype = problem.product_dtype if epilogue is None else epilogue.output_of(problem)
    with computed(runner, case, choice, asked) as product:
        said = _said(case, product, rng)
        data, is_as_checked = delivered(product)
        if (product.made_by is not None) != is_fused:
            said = said or "its epilogue was to be the kernel's own, or was not to be."
        ended, c = None, np.frombuffer(data, STORAGE_DTYPES[dtype]).reshape(problem.batch, problem.m, problem.n)
        if epilogue is not None or is_fused:
            assert not isinstance(product.matrices, GroupedProduct), "groups have no epilogue"
            of_sums = dtype if is_fused else problem.product_dtype
            ended = Ended(c, sums_of(of_sums, product.matrices.elementwise), is_fused)
    return _Found(said if is_as_checked else "its bytes are not those that were checked.", c, ended)


def _said(case: Case, product: Product, rng: np.random.Generator) -> str | None:
    """As `worker.product.multiply.verify` finds it."""
    verified = check(case.problem, case.accuracy, product.matrices, rng)
    wrong_elements = product.wrong_elements()
    product.verify_operands()
    if not verified.passed:
        return f"the check fails: {verified.residual} is above {verified.threshold}."
    return f"the check finds {wrong_elements} wrong elements of its epilogue." if wrong_elements else None
