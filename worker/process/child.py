"""The process that computes: its device, its links to the ledger and the store, and the way of one job through it,
product or benchmark.

Celery spawns it, and spawns another when it ends. CUDA lives here alone, never in the parent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

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
from jobs.matrices.factory import make_matrix_store
from jobs.matrices.interface import MatrixStore
from jobs.models import BenchmarkOutcome, JobError, product_id
from jobs.process import settle_memory
from jobs.queue import make_ledger
from jobs.redis.client import connect
from jobs.settings import Settings
from kernels.selection.ahead import warm_up
from worker.benchmark.job import benchmark
from worker.cpu.runner import CpuRunner
from worker.device.model import measured_model
from worker.device.retry import retry_until
from worker.device.runner import Runner
from worker.process.device_loans import DeviceLoans
from worker.process.heartbeat import Heartbeat
from worker.process.lease import EXIT_FAULT, EXIT_NOT_READY, LeaseKeeper, end_process
from worker.process.readiness import prove
from worker.process.spare_time import SpareTime
from worker.product.batch import multiply_batch
from worker.product.multiply import Multiplied, multiply

CLAIM_TIMEOUT_S = 5.0  # a message given up on is sent again by the sweeper
WORK_TIMEOUT_S = 60.0  # for what is lost with the attempt: operands to be read, a product to be stored or recorded
NOT_READY_PAUSE_S = 5.0  # a child that is not ready waits before it ends, so that its successors do not spin

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
        self._rng = np.random.default_rng()  # seeded by the operating system: the check's vectors must not be known
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
        count = prove(self._runner, self._rng)
        warm_up(self._runner.device.traits)
        log.info("ready", device=self._runner.device.name, products=count, seconds=round(time.monotonic() - started, 2))

    # ---- jobs ----
    def run(self, job_id: str, attempt: int) -> None:
        """Claims the job, and others that one launch may compute with it; computes them and records their ends. Returns
        at once where the message is stale."""
        with self._loans.job():
            self._run(job_id, attempt)

    def _run(self, job_id: str, attempt: int) -> None:
        claimed = retry_until(lambda: self._claim(job_id, attempt), timeout_s=CLAIM_TIMEOUT_S)
        if not claimed:
            log.debug("a message came for a job that is not waiting", job=job_id, attempt=attempt)
            return
        with self.heartbeat.busy(job_id):
            with self._lease.hold(claimed):
                ends = self._together(claimed) if len(claimed) > 1 else self._one_by_one(claimed)
            self._succeed([(job, end) for job, end in ends if not isinstance(end, JobFailed)])
            self._fail([(job, end) for job, end in ends if isinstance(end, JobFailed)])

    def _claim(self, job_id: str, attempt: int) -> Sequence[Claimed]:
        settings = self._settings
        worker, max_jobs = self.heartbeat.worker_id, settings.max_batch
        return self._ledger.claim_batch(job_id, attempt, worker=worker, lease_s=settings.lease_s, max_jobs=max_jobs)

    def _together(self, claimed: Sequence[Claimed]) -> Sequence[tuple[Claimed, End]]:
        """One that is wrong falls out alone: each is then computed by itself."""
        try:
            with _errors_named(claimed):
                done = multiply_batch(
                    claimed,
                    self._runner,
                    auto=self.spare_time.choices,
                    rng=self._rng,
                    check_ownership=self._lease.check,
                )
            return list(zip(claimed, done, strict=True))
        except (DeviceFault, TimeLimitExceeded) as failure:
            return [(each, failure) for each in claimed]
        except (JobFailed, StaleAttempt) as reason:
            log.info("jobs of one launch are computed one by one", jobs=len(claimed), reason=str(reason))
            return self._one_by_one(claimed)

    def _one_by_one(self, claimed: Sequence[Claimed]) -> list[tuple[Claimed, End]]:
        """Those that were called off are left out. Once the device has faulted, nothing more is tried on it."""
        ends: list[tuple[Claimed, End]] = []
        fault: DeviceFault | None = None
        for each in claimed:
            try:
                ends.append((each, fault or self._outcome(each)))
            except StaleAttempt:
                log.info("a job was called off", job=each.job.id, attempt=each.attempt)
            except JobFailed as failure:
                ends.append((each, failure))
                fault = failure if isinstance(failure, DeviceFault) else None
        return ends

    def _outcome(self, claimed: Claimed) -> Multiplied | BenchmarkOutcome:
        """Raises JobFailed and its kin for whatever goes wrong with this job, but for Redis."""
        with _errors_named([claimed]):
            if claimed.job.record.kind == "benchmark":
                return self._benchmark(claimed)
            return retry_until(lambda: self._multiply(claimed), timeout_s=WORK_TIMEOUT_S)

    def _multiply(self, claimed: Claimed) -> Multiplied:
        return multiply(
            claimed,
            self._store,
            self._runner,
            auto=self.spare_time.choices,
            rng=self._rng,
            product_ttl_s=self._settings.product_ttl_s,
            check_ownership=lambda: self._lease.check(claimed),
        )

    def _benchmark(self, claimed: Claimed) -> BenchmarkOutcome:
        worker, device = self.heartbeat.worker_id, self._runner.device
        outcome = benchmark(
            claimed, self._ledger, self._runner, worker=worker, check=lambda: self._lease.check(claimed)
        )
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
        """They came with the request and are of no more use; where this fails, their time runs out."""
        for operand in claimed.job.record.operands:
            if operand.source == "inline" and operand.matrix is not None:
                self._delete(operand.matrix, claimed.job.owner)

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
            end_process(EXIT_FAULT)

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


def _success(claimed: Claimed, end: Multiplied | BenchmarkOutcome) -> Success:
    if isinstance(end, Multiplied):
        return Success(claimed.job.id, claimed.attempt, end.outcome, end.packed)
    return Success(claimed.job.id, claimed.attempt, end)


def make_runner(settings: Settings) -> Runner:
    """For `settings.device`. CuPy is imported only where a GPU is asked for."""
    if settings.device == "cpu":
        return CpuRunner(settings)
    from worker.cuda.runner import CudaRunner

    return CudaRunner(settings)


def start(settings: Settings) -> Child:
    """The child, proved ready and beating; ends the process, after a pause, where that fails."""
    try:
        client = connect(settings)
        ledger, store = make_ledger(settings, client), make_matrix_store(settings, client, keeps_maps=True)
        child = Child(settings, make_runner(settings), ledger, store)
        child.prove_ready()
        retry_until(child.heartbeat.start, timeout_s=WORK_TIMEOUT_S / 2)
        child.spare_time.start()
        settle_memory()
    except Exception as error:
        _give_up(error)
    return child


def _give_up(error: Exception) -> NoReturn:
    detail = error.detail if isinstance(error, MatmulError) else f"{type(error).__name__}: {error}"
    log.error("this worker is not ready; it tries again with a new process", reason=detail, pause_s=NOT_READY_PAUSE_S)
    time.sleep(NOT_READY_PAUSE_S)
    os._exit(EXIT_NOT_READY)
