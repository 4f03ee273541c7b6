"""The process that computes: its device, its links to the ledger and the store, and the way of jobs through it,
products and benchmarks.

Celery spawns it, and spawns another when it ends. CUDA lives here alone, never in the parent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
import structlog
from celery.exceptions import SoftTimeLimitExceeded

from jobs.errors import (
    DeviceFault,
    JobFailed,
    MatmulError,
    MatrixNotFound,
    StaleAttempt,
    StoreFull,
    StoreUnavailable,
    TimeLimitExceeded,
)
from jobs.fleet.measured import MeasuredShapes
from jobs.fleet.registry import WorkerRegistry
from jobs.ledger.chains import Taken
from jobs.ledger.interface import Claimed, Ledger, Success
from jobs.matrices.interface import MatrixStore
from jobs.models import BenchmarkOutcome, JobError, MatmulRequest, StoredOperand, product_id
from jobs.redis.client import connect
from jobs.settings import Settings
from kernels.selection.ahead import warm_up
from worker.benchmark.job import benchmark
from worker.device.model import measured_model
from worker.device.retry import retry_until
from worker.device.runner import Runner
from worker.process.device_loans import DeviceLoans
from worker.process.heartbeat import Heartbeat
from worker.process.job_threads import JobThreads, Room
from worker.process.lease import EXIT_FAULT, Hold, LeaseKeeper
from worker.process.readiness import prove
from worker.process.spare_time import SpareTime
from worker.product.batch import multiply_batch
from worker.product.multiply import Multiplied, multiply

CLAIM_TIMEOUT_S = 5.0  # a message given up on is sent again by the sweeper
WORK_TIMEOUT_S = 60.0  # for what is lost with the attempt: operands to be read, a product to be stored or recorded
SMALL_BYTES = 1 << 20  # of operands

End = Multiplied | BenchmarkOutcome | JobFailed

log = structlog.get_logger(__name__)


class Child:
    """One per process. For use by the thread that runs the tasks."""

    def __init__(self, settings: Settings, runner: Runner, ledger: Ledger, store: MatrixStore) -> None:
        self._settings = settings
        self._runner = runner
        self._ledger = ledger
        self._store = store
        self._loans = DeviceLoans()
        self._jobs_under_way = settings.jobs_under_way or runner.jobs_under_way
        self._threads, self._room = JobThreads(self._jobs_under_way), Room(runner.max_bytes_under_way)
        self._lease = LeaseKeeper(ledger, settings)
        client = connect(settings)
        self._registry = WorkerRegistry(client, prefix=settings.key_prefix)
        shared = MeasuredShapes(client, prefix=settings.key_prefix, model=measured_model(runner.device))
        # No other device has a table, or a choice.
        mode = settings.auto_measures if runner.device.device_class == "gpu" else "off"
        self.spare_time = SpareTime(runner, shared, self._loans, mode)
        self.heartbeat = Heartbeat(self._registry, runner, settings)

    def prove_ready(self) -> None:
        """Raises NotReady, DeviceFault, StoreUnavailable."""
        started = time.monotonic()
        roofs = retry_until(lambda: self._registry.roofs(self._runner.device), timeout_s=WORK_TIMEOUT_S / 2)
        self._runner.device = self._runner.device.model_copy(update={"measured": roofs})
        count = prove(self._runner, new_rng())
        warm_up(self._runner.device.traits)
        log.info("ready", device=self._runner.device.name, products=count, seconds=round(time.monotonic() - started, 2))

    # ---- jobs ----
    def run(self, job_id: str, attempt: int, *, alone: bool = False) -> None:
        """Claims the job, and others that one launch may compute with it; computes them and records their ends. A
        product that is stored is left to a thread: this returns once another job may begin. At once where the message
        is stale. `alone`: no other job may be under way beside it. Nor may one beside a job that was tried before: a
        job that ends the process takes no other along twice."""
        alone = alone or attempt > 1
        if alone:
            self._threads.wait_for_all()
        with self._loans.job():
            claimed = retry_until(lambda: self._claim(job_id, attempt), timeout_s=CLAIM_TIMEOUT_S)
            if not claimed:
                log.debug("a message came for a job that is not waiting", job=job_id, attempt=attempt)
            elif alone or self._jobs_under_way == 1 or _is_small(claimed[0]):
                self._work(claimed)
            else:
                self._threads.start(lambda: self._work_in_thread(claimed))
        with suppress(SoftTimeLimitExceeded):  # of a job in a thread: its lease ends it
            self._threads.wait_for_one()

    def wait_until_idle(self) -> None:
        """Until no job is under way."""
        self._threads.wait_for_all()

    def _work_in_thread(self, claimed: Sequence[Claimed]) -> None:
        with self._loans.job():
            self._work(claimed)

    def _work(self, claimed: Sequence[Claimed]) -> None:
        with self.heartbeat.busy(claimed[0].job.id):
            with self._lease.hold(claimed) as hold:
                ends = self._together(claimed, hold) if len(claimed) > 1 else self._one_by_one(claimed, hold)
            self._succeed([(job, end) for job, end in ends if not isinstance(end, JobFailed)])
            self._fail([(job, end) for job, end in ends if isinstance(end, JobFailed)])

    def _claim(self, job_id: str, attempt: int) -> Sequence[Claimed]:
        settings = self._settings
        worker, max_jobs = self.heartbeat.worker_id, settings.max_batch
        return self._ledger.claim_batch(job_id, attempt, worker=worker, lease_s=settings.lease_s, max_jobs=max_jobs)

    def _together(self, claimed: Sequence[Claimed], hold: Hold) -> Sequence[tuple[Claimed, End]]:
        """One that is wrong falls out alone: each is then computed by itself."""
        try:
            with _errors_named(claimed):
                done = multiply_batch(
                    claimed,
                    self._runner,
                    auto=self.spare_time.choices,
                    rng=new_rng(),
                    check_ownership=hold.check,
                )
            return list(zip(claimed, done, strict=True))
        except (DeviceFault, TimeLimitExceeded) as failure:
            return [(each, failure) for each in claimed]
        except (JobFailed, StaleAttempt) as reason:
            log.info("jobs of one launch are computed one by one", jobs=len(claimed), reason=str(reason))
            return self._one_by_one(claimed, hold)

    def _one_by_one(self, claimed: Sequence[Claimed], hold: Hold) -> list[tuple[Claimed, End]]:
        """Those that were called off are left out. Once the device has faulted, nothing more is tried on it."""
        ends: list[tuple[Claimed, End]] = []
        fault: DeviceFault | None = None
        for each in claimed:
            try:
                ends.append((each, fault or self._outcome(each, hold)))
            except StaleAttempt:
                log.info("a job was called off", job=each.job.id, attempt=each.attempt)
            except JobFailed as failure:
                ends.append((each, failure))
                fault = failure if isinstance(failure, DeviceFault) else None
        return ends

    def _outcome(self, claimed: Claimed, hold: Hold) -> Multiplied | BenchmarkOutcome:
        """Raises JobFailed and its kin for whatever goes wrong with this job, but for Redis."""
        with _errors_named([claimed]):
            if claimed.job.record.kind == "benchmark":
                return self._benchmark(claimed, hold)
            return retry_until(lambda: self._multiply(claimed, hold), timeout_s=WORK_TIMEOUT_S)

    def _multiply(self, claimed: Claimed, hold: Hold) -> Multiplied:
        request = claimed.job.record.request
        assert isinstance(request, MatmulRequest), "benchmarks go another way"
        check_ownership = partial(hold.check, claimed)
        with self._room.taken(request.problem.operand_bytes + request.problem.product_bytes, check_ownership):
            return multiply(
                claimed,
                self._store,
                self._runner,
                auto=self.spare_time.choices,
                rng=new_rng(),
                product_ttl_s=self._settings.product_ttl_s,
                check_ownership=check_ownership,
            )

    def _benchmark(self, claimed: Claimed, hold: Hold) -> BenchmarkOutcome:
        worker, device = self.heartbeat.worker_id, self._runner.device
        outcome = benchmark(claimed, self._ledger, self._runner, worker=worker, check=lambda: hold.check(claimed))
        if self._runner.device is not device:  # its roofs were measured
            retry_until(lambda: self._registry.keep_roofs(self._runner.device), timeout_s=WORK_TIMEOUT_S)
        return outcome

    def _succeed(self, ends: Sequence[tuple[Claimed, Multiplied | BenchmarkOutcome]]) -> None:
        if not ends:
            return
        done = [_success(claimed, end) for claimed, end in ends]
        taken = retry_until(lambda: self._ledger.succeed_all(done), timeout_s=WORK_TIMEOUT_S)
        for (claimed, end), success, was_taken in zip(ends, done, taken, strict=True):
            if isinstance(end, Multiplied):
                self.heartbeat.verified_products += end.outcome.verification.passed is True
            self._clear_up(claimed, success, taken=was_taken)
        first = ends[0][1]
        about = {"jobs": len(ends), "job": ends[0][0].job.id, "taken": sum(map(bool, taken))}
        if isinstance(first, Multiplied):
            kernel_ms = round(first.outcome.measured.kernel_ms, 3)
            log.info("multiplied", **about, kernel=first.outcome.kernel, kernel_ms=kernel_ms)
        else:
            log.info("measured", **about, measurements=first.summary.measurements)

    def _clear_up(self, claimed: Claimed, success: Success, *, taken: Taken) -> None:
        """What is stored and of no more use: the operands that came with the job or, where it was called off or is
        another attempt's by now, the product. A product that others wait for is kept on the device."""
        if success.product is None:
            product = product_id(claimed.job.id, claimed.attempt)
            self._runner.product_ended(product, awaited=taken is Taken.AWAITED)
        if taken:
            self._drop_inline_operands(claimed)
        elif claimed.job.record.kind == "matmul" and success.product is None:
            self._delete(product_id(claimed.job.id, claimed.attempt), claimed.job.owner)

    def _drop_inline_operands(self, claimed: Claimed) -> None:
        """They came with the request and are of no more use. Their claims went with the job's success; what stays where
        this fails is found by the sweep."""
        for operand in _inline(claimed):
            try:
                self._store.drop(operand.id, operand.dtype, operand.shape)
            except (StoreUnavailable, StoreFull) as error:
                log.debug("an operand could not be removed", matrix=operand.id, reason=error.type)

    def _delete(self, matrix_id: str, owner: str) -> None:
        try:
            self._store.delete(matrix_id, owner=owner)
        except (MatrixNotFound, StoreUnavailable, StoreFull) as error:
            log.debug("a matrix could not be deleted", matrix=matrix_id, reason=error.type)

    def _fail(self, ends: Sequence[tuple[Claimed, JobFailed]]) -> None:
        """Records why. What may go better elsewhere is queued again; a device that faulted takes this process along."""
        for claimed, failure in ends:
            self._record_failure(claimed, failure)
        if any(isinstance(failure, DeviceFault) for _, failure in ends):
            self._lease.end_child(EXIT_FAULT, "its device faulted")

    def _record_failure(self, claimed: Claimed, failure: JobFailed) -> None:
        job, error = claimed.job, JobError(type=failure.type, detail=failure.detail)
        max_attempts = self._settings.max_attempts if failure.retryable else 1
        log.warning("a job failed", job=job.id, attempt=claimed.attempt, error=failure.type, detail=failure.detail)
        try:
            retry_until(
                lambda: self._ledger.fail(job.id, claimed.attempt, error, max_attempts=max_attempts),
                timeout_s=WORK_TIMEOUT_S,
            )
        except (StoreUnavailable, StoreFull):
            log.warning("the job store does not serve; the sweeper will see to the job", job=job.id)


@contextmanager
def _errors_named(claimed: Sequence[Claimed]) -> Iterator[None]:
    """Turns what no one foresaw into JobFailed."""
    try:
        yield
    except SoftTimeLimitExceeded:
        raise TimeLimitExceeded from None
    except MatmulError:
        raise
    except Exception as error:
        log.exception("a job broke off", jobs=[each.job.id for each in claimed])
        raise JobFailed("The worker met an error it does not know; its log says more.") from error


def _inline(claimed: Claimed) -> Sequence[StoredOperand]:
    """The operands that came with the request and are in the store."""
    return [
        StoredOperand(id=operand.matrix, dtype=operand.dtype, shape=operand.shape)
        for operand in claimed.job.record.operands
        if operand.source == "inline" and operand.matrix is not None
    ]


def _success(claimed: Claimed, end: Multiplied | BenchmarkOutcome) -> Success:
    if isinstance(end, Multiplied):
        stored = [operand.id for operand in _inline(claimed)]
        return Success(claimed.job.id, claimed.attempt, end.outcome, end.packed, stored)
    return Success(claimed.job.id, claimed.attempt, end)


def _is_small(claimed: Claimed) -> bool:
    """Such a product is done before a thread has been woken for it."""
    request = claimed.job.record.request
    small = isinstance(request, MatmulRequest) and request.problem.operand_bytes <= SMALL_BYTES
    return small and claimed.job.product_in_record


def new_rng() -> np.random.Generator:
    """For one launch. Seeded by the operating system: the check's vectors must not be known."""
    return np.random.default_rng()
