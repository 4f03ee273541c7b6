"""One product of `make stress`, and whether it is right."""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of
from kernels.selection.choose import choose
from tests.campaign.data import operands as of_kind
from tests.campaign.truth import truth_of
from tests.stress.cases import Case
from tests.support.kernels.products import in_float64, operands, stored
from worker.check.elements import as_exact
from worker.check.verify import check
from worker.device.operands import HostOperand
from worker.device.runner import Runner, gathered


def wrong(runner: Runner, case: Case, seed: int) -> str | None:
    """What is wrong with it, in a sentence; None where nothing is.

    Products of small integers are exact in every class: all partial sums are integers that float32 holds, and one
    rounding to the product's type is left. Each element is compared with that, so one wrong element is found wherever
    it is. Other products are checked as every product of the service is, and each element is held to the bound of its
    class.
    """
    problem, accuracy = case.problem, case.kernel.accuracy[case.problem.dtype]
    rng = np.random.default_rng((seed, case.number))
    a, b = operands(problem, rng, "integers") if case.exact else of_kind(problem, case.data, rng, accuracy)
    choice = choose(case.kernel.name, case.config, problem, accuracy, runner.device.traits)
    with runner.compute(problem, choice, HostOperand(a), HostOperand(b)) as product:
        verified = check(problem, accuracy, product.matrices, rng)
        product.verify_operands()
        digest, bits = product.digest, gathered(product.chunks())
    if digest != digest_of(bits):
        return "its bytes are not those that were checked."
    if not verified.passed:
        return f"the check fails: {verified.residual} is above {verified.threshold}."
    c = np.frombuffer(bits, STORAGE_DTYPES[problem.product_dtype]).reshape(problem.product_shape)
    return _difference(case, a, b, c) if case.exact else _excess(case, a, b, c)


def _excess(case: Case, a: Array, b: Array, c: Array) -> str | None:
    problem, accuracy = case.problem, case.kernel.accuracy[case.problem.dtype]
    truth = truth_of(problem, accuracy, a, b, quick=True)
    worst = truth.excess(c.reshape(problem.batch, problem.m, problem.n))
    return None if worst <= 1.0 else f"an element is {worst:.3g} times as far off as its class {accuracy} allows."


def _difference(case: Case, a: Array, b: Array, c: Array) -> str | None:
    problem = case.problem
    true, _ = in_float64(problem, a, b)
    expected = stored(np.broadcast_to(true, c.shape), problem.product_dtype)
    places = np.argwhere(c != expected)
    if not len(places):
        return None
    given, right = (as_exact(each[tuple(places[0])], problem.product_dtype) for each in (c, expected))
    where = ", ".join(map(str, places[0]))
    return f"{len(places)} of {c.size} elements are wrong, the first at ({where}): {given} where {right} is right."
