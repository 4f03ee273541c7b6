"""Small products of one kind, from their claimed jobs to checked results, in one launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from jobs.errors import OperandDamaged, OutOfDeviceMemory, VerificationFailed
from jobs.formats.elements import STORAGE_DTYPES
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
    """The products of jobs that agree in all but the elements, m and n (`NewJob.batch`). Each is computed at the
    largest m and n of all, with zeros beyond its own, which no element of it depends on. How many there are is chance,
    so their batch is not measured for `auto`.

    Raises JobFailed and its kin where any of them is wrong, and does not say which; StaleAttempt.
    """
    requests = [_request(job) for job in jobs]
    request, singles = requests[0], [each.problem for each in requests]
    m, n = max(each.m for each in singles), max(each.n for each in singles)
    problem = replace(singles[0], m=m, n=n, batch=len(jobs), a_batched=True, b_batched=True)
    choice = choose_kernel(jobs[0], problem, runner, auto)
    a = _stacked([(each.a, _there(job.a)) for each, job in zip(requests, jobs, strict=True)])
    b = _stacked([(each.b, _there(job.b)) for each, job in zip(requests, jobs, strict=True)])
    unchecked, began = request.verify == "off", now()
    try:
        with runner.compute(problem, choice, a, b, wanted=check_ownership, wiped=unchecked) as product:
            computed = now()
            check_ownership()
            verification = verified(request, problem, choice, product, rng)
            checked = now()
            _compare(a, [(each.a, job.a) for each, job in zip(requests, jobs, strict=True)])
            _compare(b, [(each.b, job.b) for each, job in zip(requests, jobs, strict=True)])
            products = _split(gathered(product.chunks()), product.digest, problem, singles)
            measured = product.measured
            tell_product(began, computed, checked, now(), measured)
    except MemoryError:
        raise OutOfDeviceMemory("The products do not fit in the worker's memory.") from None
    made = zip(singles, products, strict=True)
    return [
        Multiplied(outcome_of(own, choice, runner, measured, verification, singles), packed) for own, packed in made
    ]


def _request(claimed: Claimed) -> MatmulRequest:
    request = claimed.job.record.request
    assert isinstance(request, MatmulRequest), "benchmarks go another way"
    return request


def _there(packed: PackedMatrix | None) -> PackedMatrix:
    assert packed is not None, "only jobs whose operands are in their records go together"
    return packed


def _stacked(operands: Sequence[tuple[OperandRef, PackedMatrix]]) -> HostOperand:
    """Smaller ones have zeros below and to the right."""
    matrices = [packed.elements(ref.dtype, ref.shape) for ref, packed in operands]
    if len({each.shape for each in matrices}) == 1:
        elements = np.stack(matrices)
    else:
        sizes = np.max([each.shape for each in matrices], axis=0)
        elements = np.zeros((len(matrices), *sizes), matrices[0].dtype)
        for place, each in zip(elements, matrices, strict=True):
            place[: each.shape[0], : each.shape[1]] = each
    return HostOperand(elements, digest=digest_of(elements))


def _compare(operand: HostOperand, sent: Sequence[tuple[OperandRef, PackedMatrix | None]]) -> None:
    """What was multiplied is what was sent, for each job. Raises OperandDamaged."""
    for elements, (ref, packed) in zip(operand.elements, sent, strict=True):
        rows, columns = ref.shape
        if digest_of(np.ascontiguousarray(elements[:rows, :columns])) != _there(packed).digest:
            raise OperandDamaged


def _split(data: bytearray, digest: int, problem: Problem, singles: Sequence[Problem]) -> list[bytes]:
    """Each job's product, packed. Raises VerificationFailed where they are not those that were checked."""
    dtype = STORAGE_DTYPES[problem.product_dtype]
    whole = np.frombuffer(data, dtype).reshape(problem.batch, problem.m, problem.n)
    parts = (part[: own.m, : own.n] for part, own in zip(whole, singles, strict=True))
    packed = [pack(np.ascontiguousarray(part).data.cast("B")) for part in parts]
    if digest_of(data) != digest:
        raise VerificationFailed(CHANGED)
    return packed
