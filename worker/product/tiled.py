"""A product in tiles, from a claimed job to a stored and checked result. Each tile is checked by itself, and kept in
the ledger once it lies in the product's memory: an attempt goes on where the one before it was ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np
import structlog

from jobs.errors import (
    BodyTooLarge,
    JobFailed,
    NoRoomForProduct,
    OperandDamaged,
    OperandOutOfRange,
    StoreFull,
    StoreUnavailable,
    VerificationFailed,
)
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.ledger.interface import Claimed
from jobs.matrices.digest import as_bytes
from jobs.matrices.interface import PARTIAL, MatrixStore, Partial
from jobs.models import MatmulRequest, Measured, Outcome, Verification, product_id
from kernels.catalog import BY_NAME
from kernels.model.kernel import Kernel
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from kernels.tiles.plan import TilePlan
from worker.check.rounding import rounding_of
from worker.check.verify import NOT_CHECKED
from worker.cpu.free_memory import check_free_memory
from worker.device.runner import host_operands
from worker.device.tiles import CheckedTile, TiledProduct, TiledTask, Tiling, TilingRunner
from worker.product.mismatch import Mismatch, failed_check, wrong_epilogue
from worker.product.operands import ProductOperands, open_operands
from worker.product.outcome import outcome_of
from worker.product.tile_journal import TileJournal

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TiledJob:
    """A claimed product, and what it is computed with."""

    claimed: Claimed
    request: MatmulRequest
    store: MatrixStore
    runner: TilingRunner
    journal: TileJournal
    product_ttl_s: float
    check_ownership: Callable[[], None]


def multiply_tiled(job: TiledJob, choice: Choice, tiling: Tiling) -> Outcome:
    """Computes the product and stores it. Raises JobFailed and its subclasses, StoreUnavailable, StaleAttempt."""
    choice, tiling = _earlier_choice(job, choice, tiling)
    problem = job.request.problem
    with ExitStack() as opened:
        operands = open_operands(job.claimed, job.request, job.store, opened)
        with _memory(job, problem) as (out, partial), _kept_for_another_attempt(partial):
            try:
                measured, verification = _compute(job, choice, tiling, operands, out, partial)
            except (VerificationFailed, OperandDamaged, OperandOutOfRange):
                job.journal.spoil()
                raise
    why = f"{choice.why.removesuffix('.')}; computed {tiling.why}."
    return outcome_of(job.request, replace(choice, why=why), job.runner, measured, verification, in_tiles=True)


def _earlier_choice(job: TiledJob, choice: Choice, tiling: Tiling) -> tuple[Choice, Tiling]:
    """The kernel and tiling of an earlier attempt, if its tiles are sound."""
    header, request = job.journal.header, job.request
    if header is None or header.is_spoilt or request.kernel != "auto" or header.kernel not in job.runner.kernels:
        return choice, tiling
    kernel = BY_NAME[header.kernel]
    config = kernel.resolve_config(header.config, request.problem, job.runner.device.traits)
    begun = Choice(kernel, config, f"auto: {kernel.name} computed the tiles of an attempt before this one.")
    again = job.runner.tiling(request.problem, begun, has_epilogue=request.has_epilogue)
    return (choice, tiling) if again is None else (begun, again)


@contextmanager
def _memory(job: TiledJob, problem: Problem) -> Iterator[tuple[Array, Partial | None]]:
    """The memory for the product: in the store if it can keep a partial product, otherwise in this process."""
    name = PARTIAL + job.claimed.job.id.removeprefix("job_")
    try:
        with job.store.partial(name, problem.product_dtype, problem.product_shape) as partial:
            if partial is None:
                check_free_memory(problem.product_bytes, "The product needs")
                yield np.empty(problem.product_shape, STORAGE_DTYPES[problem.product_dtype]), None
            else:
                yield partial.place.elements, partial
    except (StoreFull, BodyTooLarge) as error:
        raise NoRoomForProduct(error.detail) from error


@contextmanager
def _kept_for_another_attempt(partial: Partial | None) -> Iterator[None]:
    """Keeps the finished tiles if another attempt may succeed."""
    try:
        yield
    except StoreUnavailable:
        if partial is not None:
            partial.is_kept = True
        raise
    except JobFailed as failure:
        if partial is not None and failure.retryable and not isinstance(failure, VerificationFailed | OperandDamaged):
            partial.is_kept = True
        raise


def _compute(
    job: TiledJob,
    choice: Choice,
    tiling: Tiling,
    operands: ProductOperands,
    out: Array,
    partial: Partial | None,
) -> tuple[Measured, Verification]:
    """Computes all tiles and stores the product."""
    problem, journal = job.request.problem, job.journal
    found = partial.mark if partial is not None and goes_on(choice.kernel, partial) else None
    seed = journal.begin(tiling, choice.kernel.name, dict(choice.config), found=found)
    if partial is not None:
        partial.mark = seed
    log.info("a product in tiles", way=tiling.why, kernel=choice.kernel.name, found=len(journal.records))
    whole = out.reshape(problem.batch, problem.m, problem.n)
    task = TiledTask(
        problem,
        choice,
        tiling.plan,
        operands.a,
        operands.b,
        whole,
        memory=partial.place.memory if partial is not None else None,
        seed=seed,
        checked=job.request.verify != "off",
        epilogue=operands.epilogue,
        check_cancelled=job.check_ownership,
    )
    with job.runner.tiled(task) as product:
        for checked in product.tiles(frozenset(journal.records)):
            if checked.is_wrong:
                raise _failure(choice, problem, operands, whole, checked)
            if partial is not None:
                partial.touch()
            journal.add(checked, after_s=library_ms(choice.kernel, product) / 1e3)
        parts = product.finished(journal.records)
        measured = product.measured
        kernel_ms = _kernel_ms(tiling.plan, journal) + library_ms(choice.kernel, product)
    _store(job, problem, out, partial, parts)
    return measured.model_copy(update={"kernel_ms": kernel_ms}), _verification(job, choice, problem)


def goes_on(kernel: Kernel, partial: Partial | None) -> bool:
    """Whether tiles of an earlier attempt may count: their memory is still there, and no library writes the whole
    product anew."""
    return partial is not None and partial.is_found and not isinstance(kernel, HostLibraryKernel)


def library_ms(kernel: Kernel, product: TiledProduct) -> float:
    """The time of a library that computed the whole product before there were tiles."""
    return product.measured.kernel_ms if isinstance(kernel, HostLibraryKernel) else 0.0


def _failure(
    choice: Choice, problem: Problem, operands: ProductOperands, out: Array, checked: CheckedTile
) -> JobFailed:
    if checked.verification.passed is not False:
        return wrong_epilogue(checked.wrong_elements)
    a, b = operands.a.elements, operands.b.elements
    failure = failed_check(choice, problem, host_operands(problem, a, b, out).elementwise, checked.verification)
    if isinstance(failure, Mismatch):
        failure.kernel = choice.kernel.name  # it is not made again, so that is all that is known
    return failure


def _store(job: TiledJob, problem: Problem, out: Array, partial: Partial | None, parts: bytes) -> None:
    name = product_id(job.claimed.job.id, job.claimed.attempt)
    shape, dtype, place = problem.product_shape, problem.product_dtype, partial.place if partial else None
    job.check_ownership()
    owner = job.claimed.job.owner
    with job.store.create(dtype, shape, owner=owner, ttl_s=job.product_ttl_s, name=name, place=place) as writer:
        if partial is None:
            writer.write(as_bytes(out))
        else:
            writer.fill(parts)
        writer.commit()


def _kernel_ms(plan: TilePlan, journal: TileJournal) -> float:
    """The kernel time of the device that computed longest, over all attempts."""
    tiles = (plan.tiles_of(device) for device in range(plan.devices))
    return max(sum(journal.records[tile.number].kernel_ms for tile in own) for own in tiles)


def _verification(job: TiledJob, choice: Choice, problem: Problem) -> Verification:
    """The verification of all tiles: that of the tile with the largest residual."""
    if job.request.verify == "off":
        return NOT_CHECKED
    if problem.product_dtype == "int32":
        return Verification(method="freivalds", residual=0.0, threshold=0.0, passed=True)
    threshold = rounding_of(problem, choice.kernel.accuracy[problem.dtype]).threshold
    worst = max(record.residual for record in job.journal.records.values())
    return Verification(method="freivalds", residual=worst * threshold, threshold=threshold, passed=True)
