"""Computes and checks small products of one kind in one launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from jobs.errors import OperandDamaged, OutOfDeviceMemory, VerificationFailed
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.ledger.interface import Claimed
from jobs.ledger.submission import BESIDE
from jobs.matrices.digest import digest_of
from jobs.matrices.interface import MatrixStore
from jobs.matrices.packed import pack
from jobs.models import MatmulRequest, Outcome
from kernels.model.numerics import Problem
from worker.check.verify import max_direct_batch
from worker.device.operands import HostOperand
from worker.device.runner import Runner, gathered
from worker.product.auto import AutoChoices
from worker.product.multiply import CHANGED, Multiplied, choose_kernel, store_bytes, verify
from worker.product.operands import operand
from worker.product.outcome import outcome_of
from worker.tracing.phases import now, tell_product

LAUNCH_BYTES = 4 << 20  # of stored matrices: more would not be faster, and the first product would wait for the last


def launches(claimed: Sequence[Claimed], light_extent: int) -> Sequence[Sequence[Claimed]]:
    """Divides the jobs of one claim into launches, followed by light products, which are computed one after the other.
    The number of stored matrices in a launch is limited so that each product gets the same check as it would alone.
    """
    if len(claimed) < 2 or claimed[0].job.batch in ("", BESIDE):
        light: list[Claimed] = []
        heavy: list[Claimed] = []
        for each in claimed:
            (light if is_light(each, light_extent) else heavy).append(each)
        return [*([each] for each in heavy), *([light] if light else [])]
    if all(_is_in_record(each) for each in claimed):
        return [claimed]
    one = _padded([_request(each).problem for each in claimed])
    each_bytes = max(1, one.operand_bytes + one.product_bytes)
    count = max(1, min(LAUNCH_BYTES // each_bytes, max_direct_batch(one) or len(claimed)))
    return [claimed[first : first + count] for first in range(0, len(claimed), count)]


def is_light(claimed: Claimed, light_extent: int) -> bool:
    """Whether none of its matrices has more than `light_extent` rows or columns, as lua/claim.lua asks."""
    request = claimed.job.record.request
    if not isinstance(request, MatmulRequest):
        return False
    shapes = [each.shape for each in request.operands.values()]
    return all(len(shape) == 2 and max(shape) <= light_extent for shape in shapes)


def is_one_launch(claimed: Sequence[Claimed]) -> bool:
    """Whether these jobs are computed in one launch."""
    return len(claimed) == 1 or claimed[0].job.batch != BESIDE


def _padded(singles: Sequence[Problem]) -> Problem:
    """The smallest problem that has room for each of these."""
    return replace(singles[0], m=max(each.m for each in singles), n=max(each.n for each in singles))


def _is_in_record(claimed: Claimed) -> bool:
    return claimed.a is not None and claimed.b is not None and claimed.job.product_in_record


def multiply_batch(
    jobs: Sequence[Claimed],
    store: MatrixStore,
    runner: Runner,
    *,
    auto: AutoChoices,
    rng: np.random.Generator,
    product_ttl_s: float,
    check_ownership: Callable[[], None],
) -> Sequence[Multiplied]:
    """The products of jobs that agree in all but the elements, m and n (`NewJob.batch`). Each is computed at the
    largest m and n of all, with zeros beyond its own, which no element of it depends on. The batch size is arbitrary,
    so this shape is not measured for `auto`. Raises JobFailed or a subclass if any of them is wrong, without saying
    which; StaleAttempt, StoreUnavailable.
    """
    requests = [_request(job) for job in jobs]
    request, singles = requests[0], [each.problem for each in requests]
    problem = replace(_padded(singles), batch=len(jobs), a_batched=True, b_batched=True, symmetric=False)
    choice = choose_kernel(jobs[0], problem, runner, auto)
    unchecked, began = request.verify == "off", now()
    with ExitStack() as opened:
        of_a = [operand(each.a, job.a, store, opened) for each, job in zip(requests, jobs, strict=True)]
        of_b = [operand(each.b, job.b, store, opened) for each, job in zip(requests, jobs, strict=True)]
        a, b = HostOperand(_stacked(of_a)), HostOperand(_stacked(of_b))
        try:
            with runner.compute(
                problem, choice, a, b, check_cancelled=check_ownership, zero_output=unchecked
            ) as product:
                computed = now()
                check_ownership()
                verification = verify(request, problem, choice, product, rng)
                checked = now()
                _check_digests(a.elements, of_a)
                _check_digests(b.elements, of_b)
                data, digest = gathered(product.chunks()), product.digest
                measured = product.measured
        except MemoryError:
            raise OutOfDeviceMemory("The products do not fit in the worker's memory.") from None
    products = _split(data, problem, singles)
    packed = [_deliver(job, own, store, product_ttl_s) for job, own in zip(jobs, products, strict=True)]
    if digest_of(data) != digest:  # the stored copy becomes a leftover
        raise VerificationFailed(CHANGED)
    tell_product(began, computed, checked, now(), measured)
    return _multiplied(requests, packed, lambda own: outcome_of(own, choice, runner, measured, verification, singles))


def _multiplied(
    requests: Sequence[MatmulRequest], packed: Sequence[bytes | None], outcome: Callable[[MatmulRequest], Outcome]
) -> Sequence[Multiplied]:
    """Outcomes differ by the product's shape alone, so one is made for each shape."""
    of_shape = {each.delivered.shape: each for each in requests}
    outcomes = {shape: outcome(own) for shape, own in of_shape.items()}
    return [
        Multiplied(outcomes[own.delivered.shape], there, is_claimed=there is not None)
        for own, there in zip(requests, packed, strict=True)
    ]


def _request(claimed: Claimed) -> MatmulRequest:
    request = claimed.job.record.request
    assert isinstance(request, MatmulRequest), "benchmarks go another way"
    return request


def _stacked(operands: Sequence[HostOperand]) -> Array:
    """Stacks the operands; smaller ones are padded with zeros below and to the right."""
    matrices = [each.elements for each in operands]
    if len({each.shape for each in matrices}) == 1:
        return np.stack(matrices)
    sizes = np.max([each.shape for each in matrices], axis=0)
    elements = np.zeros((len(matrices), *sizes), matrices[0].dtype)
    for place, each in zip(elements, matrices, strict=True):
        place[: each.shape[0], : each.shape[1]] = each
    return elements


def _check_digests(multiplied: Array, sent: Sequence[HostOperand]) -> None:
    """Checks for each job that what was multiplied is what was sent. Raises OperandDamaged."""
    for elements, own in zip(multiplied, sent, strict=True):
        rows, columns = own.shape
        if digest_of(np.ascontiguousarray(elements[:rows, :columns])) != own.digest:
            raise OperandDamaged


def _split(data: bytearray, problem: Problem, singles: Sequence[Problem]) -> list[Array]:
    """Each job's product."""
    dtype = STORAGE_DTYPES[problem.product_dtype]
    whole = np.frombuffer(data, dtype).reshape(problem.batch, problem.m, problem.n)
    return [np.ascontiguousarray(part[: own.m, : own.n]) for part, own in zip(whole, singles, strict=True)]


def _deliver(claimed: Claimed, product: Array, store: MatrixStore, ttl_s: float) -> bytes | None:
    """The product packed for the job's record; None if it was stored instead. Raises NoRoomForProduct."""
    data = product.data.cast("B")
    if claimed.job.product_in_record:
        return pack(data)
    store_bytes(claimed, data, store, ttl_s)
    return None
