"""Small products of one kind, from their claimed jobs to checked results, in one launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from jobs.errors import OperandDamaged, OutOfDeviceMemory, VerificationFailed
from jobs.ledger.interface import Claimed
from jobs.matrices.digest import digest_of
from jobs.matrices.packed import PackedMatrix, pack
from jobs.models import MatmulRequest, OperandRef
from kernels.model.numerics import Problem
from worker.device.runner import HostOperand, Runner, gathered
from worker.product.auto import AutoChoices
from worker.product.multiply import CHANGED, Multiplied, choose_kernel, verified
from worker.product.outcome import outcome_of
from worker.tracing.phases import now, tell_product


def multiply_batch(
    jobs: Sequence[Claimed],
    runner: Runner,
    *,
    auto: AutoChoices,
    rng: np.random.Generator,
    check_ownership: Callable[[], None],
) -> Sequence[Multiplied]:
    """The products of jobs that agree in all but the elements (`NewJob.batch`). How many there are is chance, so their
    batch is not measured for `auto`.

    Raises JobFailed and its kin where any of them is wrong, and does not say which; StaleAttempt.
    """
    request = jobs[0].job.record.request
    assert isinstance(request, MatmulRequest), "benchmarks go another way"
    single = request.problem
    problem = replace(single, batch=len(jobs), a_batched=True, b_batched=True)
    choice = choose_kernel(jobs[0], problem, runner, auto)
    packed_a, packed_b = [_there(job.a) for job in jobs], [_there(job.b) for job in jobs]
    a, b = _stacked(request.a, packed_a), _stacked(request.b, packed_b)
    unchecked, began = request.verify == "off", now()
    try:
        with runner.compute(problem, choice, a, b, wanted=check_ownership, wiped=unchecked) as product:
            computed = now()
            check_ownership()
            verification = verified(request, problem, choice, product, rng)
            checked = now()
            _compare(a, packed_a)
            _compare(b, packed_b)
            products = _split(gathered(product.chunks()), product.digest, problem)
            measured = product.measured
            tell_product(began, computed, checked, now(), measured)
    except MemoryError:
        raise OutOfDeviceMemory("The products do not fit in the worker's memory.") from None
    outcome = outcome_of(single, choice, runner, measured, verification, batch=len(jobs))
    return [Multiplied(outcome, packed) for packed in products]


def _there(packed: PackedMatrix | None) -> PackedMatrix:
    assert packed is not None, "only jobs whose operands are in their records go together"
    return packed


def _stacked(ref: OperandRef, packed: Sequence[PackedMatrix]) -> HostOperand:
    elements = np.stack([each.elements(ref.dtype, ref.shape) for each in packed])
    return HostOperand(elements, digest=digest_of(elements))


def _compare(operand: HostOperand, packed: Sequence[PackedMatrix]) -> None:
    """What was multiplied is what was sent, for each job. Raises OperandDamaged."""
    for elements, each in zip(operand.elements, packed, strict=True):
        if digest_of(elements) != each.digest:
            raise OperandDamaged


def _split(data: bytearray, digest: int, problem: Problem) -> list[bytes]:
    """Each job's product, packed. Raises VerificationFailed where they are not those that were checked."""
    size = problem.product_bytes // problem.batch
    view = memoryview(data)
    packed = [pack(view[i * size : (i + 1) * size]) for i in range(problem.batch)]
    if digest_of(data) != digest:
        raise VerificationFailed(CHANGED)
    return packed
