"""One product, from a claimed job to a stored and checked result: choose, run, verify, store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import structlog

from jobs.errors import (
    KernelUnavailable,
    NoRoomForProduct,
    OutOfDeviceMemory,
    StoreFull,
    VerificationFailed,
)
from jobs.ledger.interface import Claimed, Ledger
from jobs.matrices.interface import MatrixStore, MatrixWriter, Place
from jobs.matrices.packed import PackedMatrix, pack
from jobs.models import MatmulRequest, Outcome, Verification, product_id
from kernels.model.bounds import Magnitudes
from kernels.model.entry.config import ConfigError
from kernels.model.kernel import Kernel
from kernels.model.numerics import Problem
from kernels.model.outputs import Delivered
from kernels.selection.candidates import Choice, NoKernelError
from kernels.selection.choose import choose, choose_again
from kernels.selection.demands import demand_of
from worker.check.verify import NOT_CHECKED, check
from worker.device.host_lock import LongWait
from worker.device.runner import Product, Runner, gathered
from worker.device.tiles import TilingRunner
from worker.product.auto import AutoChoices
from worker.product.contexts import CopiesDroppedOnDamage, no_room
from worker.product.demanded import Demanded, choose_demanded
from worker.product.memory_retry import second_try
from worker.product.mismatch import Again, Mismatch, failed_check, wrong_epilogue
from worker.product.operands import open_operands, operand
from worker.product.outcome import outcome_of
from worker.product.tile_journal import TileJournal
from worker.product.tiled import TiledJob, multiply_tiled
from worker.tracing.phases import now, tell_product

log = structlog.get_logger(__name__)

CLAIMED_LATER_BYTES = 256 << 20
CHANGED = "The product changed on its way into the store, so it is not kept."


@dataclass(frozen=True, slots=True)
class Multiplied:
    """A product that is done and checked. `packed`: its bytes, if they go into the job's record; else it is in the
    store. `is_claimed`: the store's index has it already; else it is claimed by the step that records the success."""

    outcome: Outcome
    packed: bytes | None
    is_claimed: bool = True


@dataclass(frozen=True, slots=True)
class _Task:
    """A claimed product, and what it is computed with. `check_ownership` raises StaleAttempt once the job is lost."""

    claimed: Claimed
    request: MatmulRequest
    store: MatrixStore
    runner: Runner
    rng: np.random.Generator
    product_ttl_s: float
    check_ownership: Callable[[], None]


def multiply(
    claimed: Claimed,
    store: MatrixStore,
    runner: Runner,
    *,
    auto: AutoChoices,
    rng: np.random.Generator,
    product_ttl_s: float,
    check_ownership: Callable[[], None],
    ledger: Ledger,
) -> Multiplied:
    """Computes and checks a product, and stores it or returns it for the job's record. `check_ownership` raises
    StaleAttempt once the job is lost.

    Raises JobFailed and its subclasses, StoreUnavailable, StaleAttempt.
    """
    request = claimed.job.record.request
    assert isinstance(request, MatmulRequest), "benchmarks go another way"
    task = _Task(claimed, request, store, runner, rng, product_ttl_s, check_ownership)
    if not demand_of(request):
        return _multiply_by(task, choose_kernel(claimed, request.problem, runner, auto), ledger)
    demanded = _choose_demanded(task, auto)
    made = _multiply_by(task, demanded.choice, ledger, demanded.fit)
    bound = demanded.bound(made.outcome.kernel)
    return replace(made, outcome=made.outcome.model_copy(update={"error_bound": bound}))


def _multiply_by(task: _Task, choice: Choice, ledger: Ledger, among: Sequence[Kernel] | None = None) -> Multiplied:
    """Computes in tiles, or whole; if memory runs out, tries once more. `among`: the kernels that meet the product's
    demands, if it has any; only these may then replace the choice."""
    claimed, request, store, runner = task.claimed, task.request, task.store, task.runner
    if isinstance(runner, TilingRunner) and not claimed.job.product_in_record and not request.goes_whole:
        tiling = runner.tiling(request.problem, choice, has_epilogue=request.has_epilogue)
        if tiling is not None:
            journal = TileJournal(claimed, ledger, task.check_ownership)
            job = TiledJob(claimed, request, store, runner, journal, task.product_ttl_s, task.check_ownership)
            with LongWait():
                return Multiplied(multiply_tiled(job, choice, tiling), None)
    # An error that is handled still holds on to the device's memory. So what is done about it is done afterwards.
    again: Choice | None = None
    wrong: Mismatch | None = None
    try:
        return _multiply_whole(task, choice)
    except OutOfDeviceMemory as full:
        again = second_try(request, request.problem, choice, runner, full, among)
        if again is None:
            raise
    except Mismatch as failed:
        wrong = failed.with_traceback(None)
    if wrong is not None:
        wrong.explain(choice, lambda: _recompute(task, choice))
        raise wrong
    assert again is not None
    log.warning("memory ran out; kept operands are dropped and the product is tried again", kernel=again.kernel.name)
    runner.free_memory()
    return _multiply_whole(task, again)


def _multiply_whole(task: _Task, choice: Choice) -> Multiplied:
    """Computes the product whole, by that kernel, and delivers it."""
    claimed, request, began = task.claimed, task.request, now()
    try:
        with ExitStack() as opened:
            a, b, epilogue = open_operands(claimed, request, task.store, opened)
            place = product_place(claimed, request.delivered, task.store, opened)
            with task.runner.compute(
                request.problem,
                choice,
                a,
                b,
                place,
                epilogue=epilogue,
                check_cancelled=task.check_ownership,
                zero_output=request.verify == "off",
            ) as product:
                computed = now()
                task.check_ownership()
                with CopiesDroppedOnDamage(product):
                    verification = verify(request, request.problem, choice, product, task.rng)
                    checked = now()
                    task.check_ownership()
                    packed = _deliver(task, product, place, is_right=verification.passed is True)
                measured = product.measured
                tell_product(began, computed, checked, now(), measured)
    except MemoryError:
        raise OutOfDeviceMemory("The product does not fit in the worker's memory; make it smaller.") from None
    outcome = outcome_of(request, product.made_by or choice, task.runner, measured, verification)
    return Multiplied(outcome, packed, is_claimed=packed is not None or not _is_claimed_later(request.delivered))


def _deliver(task: _Task, product: Product, place: Place | None, *, is_right: bool) -> bytes | None:
    """The product packed for the job's record; None if it was stored instead. Raises NoRoomForProduct,
    VerificationFailed if it changed on the way."""
    claimed, request = task.claimed, task.request
    if claimed.job.product_in_record:
        return _packed(product)
    with no_room, product_writer(claimed, request.delivered, task.store, task.product_ttl_s, place) as writer:
        product.store(writer)
        if writer.digest != product.digest:
            raise VerificationFailed(CHANGED)
        writer.commit()
    if is_right:
        product.offer(product_id(claimed.job.id, claimed.attempt))
    return None


def _recompute(task: _Task, choice: Choice) -> Again:
    """Computes the product once more, only to compare it with the first."""
    problem, compute = task.request.problem, task.runner.compute
    with ExitStack() as opened:
        a, b, epilogue = open_operands(task.claimed, task.request, task.store, opened)
        with compute(
            problem, choice, a, b, epilogue=epilogue, check_cancelled=task.check_ownership, zero_output=True
        ) as product:
            verification = check(problem, choice.kernel.accuracy[problem.dtype], product.matrices, task.rng)
            return Again(bool(verification.passed), product.digest)


def _choose_demanded(task: _Task, auto: AutoChoices) -> Demanded:
    """Raises KernelUnavailable, OperandOutOfRange, OperandMissing."""
    claimed, request, store = task.claimed, task.request, task.store

    def measure() -> tuple[Magnitudes, Magnitudes]:
        with ExitStack() as opened:
            a, b = operand(request.a, claimed.a, store, opened), operand(request.b, claimed.b, store, opened)
            return auto.magnitudes.of(a, request.a.dtype), auto.magnitudes.of(b, request.b.dtype)

    try:
        return choose_demanded(request, claimed.attempt, task.runner, auto, measure)
    except (NoKernelError, ConfigError) as error:
        raise KernelUnavailable(str(error)) from error


def choose_kernel(claimed: Claimed, problem: Problem, runner: Runner, auto: AutoChoices) -> Choice:
    """Chooses for one job, or for several whose products are one batch. Raises KernelUnavailable."""
    request = claimed.job.record.request
    assert isinstance(request, MatmulRequest), "benchmarks go another way"
    try:
        if request.kernel == "auto" and claimed.attempt > 1:
            return choose_again(problem, request.accuracy, runner.device.traits)
        if request.kernel == "auto" and not problem.scale_columns and not problem.group_sizes:  # no table knows these
            return auto.choose(problem, request.accuracy, is_measured=problem == request.problem)
        return choose(request.kernel, request.config, problem, request.accuracy, runner.device.traits)
    except (NoKernelError, ConfigError) as error:
        raise KernelUnavailable(str(error)) from error


def verify(
    request: MatmulRequest, problem: Problem, choice: Choice, product: Product, rng: np.random.Generator
) -> Verification:
    """Checks the product. The operands' digests are compared after the check, so that changes during the check are
    found too."""
    if request.verify == "off":
        product.verify_operands()
        product.device_lock.release()
        return NOT_CHECKED
    verification = check(problem, choice.kernel.accuracy[problem.dtype], product.matrices, rng)
    wrong = product.wrong_elements()
    product.verify_operands()
    product.device_lock.release()
    if not verification.passed:
        raise failed_check(choice, problem, product.matrices.elementwise, verification)
    if wrong:
        raise wrong_epilogue(wrong)
    product.keep_operands()
    return verification


def product_place(claimed: Claimed, delivered: Delivered, store: MatrixStore, opened: ExitStack) -> Place | None:
    """The place in the store for the product, held as long as `opened` is; None if it goes into the job's record.
    Raises NoRoomForProduct."""
    if claimed.job.product_in_record:
        return None
    try:
        return opened.enter_context(store.place(delivered.dtype, delivered.shape))
    except StoreFull as error:
        raise NoRoomForProduct(error.detail) from error


def _packed(product: Product) -> bytes:
    """The product for the job's record. Raises VerificationFailed if it is not the one that was checked."""
    packed = PackedMatrix(pack(gathered(product.chunks())))
    if packed.digest != product.digest:
        raise VerificationFailed(CHANGED)
    return packed.packed


def _is_claimed_later(delivered: Delivered) -> bool:
    """A product of usual size is claimed in the step that ends its job, which spares a reservation and a claim of its
    own. Of a larger one the room is reserved before it is written."""
    return delivered.bytes <= CLAIMED_LATER_BYTES


def store_bytes(claimed: Claimed, data: memoryview, store: MatrixStore, ttl_s: float) -> None:
    """Stores a product's bytes. The caller compares them with those that were checked. Raises NoRoomForProduct."""
    request = claimed.job.record.request
    assert isinstance(request, MatmulRequest), "benchmarks go another way"
    with no_room, product_writer(claimed, request.delivered, store, ttl_s) as writer:
        writer.write(data)
        writer.commit()


def product_writer(
    claimed: Claimed, delivered: Delivered, store: MatrixStore, ttl_s: float, place: Place | None = None
) -> MatrixWriter:
    """A writer for the product, to be used within `no_room`."""
    shape, dtype, owner = delivered.shape, delivered.dtype, claimed.job.owner
    name, later = product_id(claimed.job.id, claimed.attempt), _is_claimed_later(delivered)
    return store.create(dtype, shape, owner=owner, ttl_s=ttl_s, name=name, place=place, claimed_later=later)
