"""Computes and checks small products of one kind in one launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from jobs.errors import OutOfDeviceMemory, VerificationFailed
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.ledger.interface import Claimed
from jobs.matrices.digest import digest_of
from jobs.matrices.interface import MatrixStore, Place
from jobs.matrices.packed import PackedMatrix, pack
from jobs.models import MatmulRequest, Measured, Outcome, Verification
from jobs.requests.operands import OperandRef
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from worker.device.operands import HostOperand, StackedOperand
from worker.device.runner import Product, Runner, gathered
from worker.device.stacked import StackedProduct, StackingRunner
from worker.product.auto import AutoChoices
from worker.product.claim_parts import padded, request_of
from worker.product.contexts import CopiesDroppedOnDamage, no_room
from worker.product.multiply import (
    CHANGED,
    Multiplied,
    choose_kernel,
    product_place,
    product_writer,
    store_bytes,
    verify,
)
from worker.product.operands import operand
from worker.product.outcome import outcome_of
from worker.tracing.phases import now, tell_product


@dataclass(frozen=True, slots=True)
class _Batch:
    """Jobs of one launch, what is computed for them, and where their products go."""

    jobs: Sequence[Claimed]
    requests: Sequence[MatmulRequest]
    problem: Problem
    choice: Choice
    store: MatrixStore
    ttl_s: float  # of a stored product

    @property
    def each(self) -> Iterator[tuple[MatmulRequest, Claimed]]:
        return zip(self.requests, self.jobs, strict=True)


class _How(TypedDict):
    """As of `Runner.compute`."""

    check_cancelled: Callable[[], None]
    zero_output: bool


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
    """The products of jobs that agree in all but the elements, m and n (`Part`). Each is computed at the largest m and
    n of all, with zeros beyond its own, which no element of it depends on. The batch size is arbitrary, so this shape
    is not measured for `auto`. Raises JobFailed or a subclass if any of them is wrong, without saying which;
    StaleAttempt, StoreUnavailable.
    """
    requests = [request_of(job) for job in jobs]
    singles = [each.problem for each in requests]
    problem = replace(padded(singles), batch=len(jobs), a_batched=True, b_batched=True, symmetric=False)
    choice = choose_kernel(jobs[0], problem, runner, auto)
    batch = _Batch(jobs, requests, problem, choice, store, product_ttl_s)
    try:
        packed, measured, verification = _computed(batch, runner, rng, check_ownership)
    except MemoryError:
        raise OutOfDeviceMemory("The products do not fit in the worker's memory.") from None
    return _multiplied(requests, packed, lambda own: outcome_of(own, choice, runner, measured, verification, singles))


def _computed(
    batch: _Batch, runner: Runner, rng: np.random.Generator, check_ownership: Callable[[], None]
) -> tuple[Sequence[bytes | None], Measured, Verification]:
    """What goes into the records of the jobs, as of `Multiplied`. The products that are stored are leftovers until
    their jobs' ends are recorded."""
    request, began = batch.requests[0], now()
    with ExitStack() as opened:
        computing, places = _computing(batch, runner, check_ownership, opened)
        with computing as product, CopiesDroppedOnDamage(product):
            computed = now()
            check_ownership()
            verification = verify(request, batch.problem, batch.choice, product, rng)
            checked = now()
            if isinstance(product, StackedProduct):
                packed = _deliver_apart(batch, product, places)
            else:
                packed = _deliver(batch, product)
            measured = product.measured
    tell_product(began, computed, checked, now(), measured)
    return packed, measured, verification


def _computing(
    batch: _Batch, runner: Runner, check_ownership: Callable[[], None], opened: ExitStack
) -> tuple[AbstractContextManager[Product], Sequence[Place | None]]:
    """The product, for which the operands are stacked on the device or, if they are small or in records, here; and the
    places for what the device brings back to each. Raises NoRoomForProduct, OperandMissing, DoesNotFit."""
    problem, choice = batch.problem, batch.choice
    how: _How = {"check_cancelled": check_ownership, "zero_output": batch.requests[0].verify == "off"}
    a = StackedOperand(_operands([(own.a, job.a) for own, job in batch.each], batch.store, opened))
    b = StackedOperand(_operands([(own.b, job.b) for own, job in batch.each], batch.store, opened))
    in_record = any(job.job.product_in_record for job in batch.jobs)
    is_even = len({own.problem for own in batch.requests}) == 1
    if isinstance(runner, StackingRunner) and is_even and not in_record and runner.stacks(problem):
        places = [product_place(job, own.delivered, batch.store, opened) for own, job in batch.each]
        return runner.compute_stacked(problem, choice, (a, b), places, **how), places
    return runner.compute(problem, choice, a, b, **how), ()


def _operands(
    refs: Sequence[tuple[OperandRef, PackedMatrix | None]], store: MatrixStore, opened: ExitStack
) -> list[HostOperand]:
    """Raises as `operand`. A stored matrix that several jobs name is opened once."""
    found: dict[str, HostOperand] = {}
    operands = []
    for ref, packed in refs:
        known = None if ref.matrix is None or packed is not None else found.get(ref.matrix)
        operands.append(known or operand(ref, packed, store, opened))
        if ref.matrix is not None and packed is None:
            found[ref.matrix] = operands[-1]
    return operands


def _deliver_apart(batch: _Batch, product: StackedProduct, places: Sequence[Place | None]) -> list[bytes | None]:
    """Stores each job's product from the device, in its place. Raises NoRoomForProduct, VerificationFailed if one
    changed on the way: then what was stored is left over."""
    for index, (job, place) in enumerate(zip(batch.jobs, places, strict=True)):
        delivered = batch.requests[index].delivered
        with no_room, product_writer(job, delivered, batch.store, batch.ttl_s, place) as writer:
            product.store_item(index, writer)
            if writer.digest != product.item_digests[index]:
                raise VerificationFailed(CHANGED)
            writer.commit()
    return [None] * len(batch.jobs)


def _deliver(batch: _Batch, product: Product) -> list[bytes | None]:
    """Packs each job's product for its record, or stores it. Raises as `_deliver_apart`."""
    data, digest = gathered(product.chunks()), product.digest
    products = _split(data, batch.problem, [own.problem for own in batch.requests])
    packed = [_packed(job, own, batch.store, batch.ttl_s) for job, own in zip(batch.jobs, products, strict=True)]
    if digest_of(data) != digest:
        raise VerificationFailed(CHANGED)
    return packed


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


def _split(data: bytearray, problem: Problem, singles: Sequence[Problem]) -> list[Array]:
    """Each job's product."""
    dtype = STORAGE_DTYPES[problem.product_dtype]
    whole = np.frombuffer(data, dtype).reshape(problem.batch, problem.m, problem.n)
    return [np.ascontiguousarray(part[: own.m, : own.n]) for part, own in zip(whole, singles, strict=True)]


def _packed(claimed: Claimed, product: Array, store: MatrixStore, ttl_s: float) -> bytes | None:
    """The product packed for the job's record; None if it was stored instead. Raises NoRoomForProduct."""
    data = product.data.cast("B")
    if claimed.job.product_in_record:
        return pack(data)
    store_bytes(claimed, data, store, ttl_s)
    return None
