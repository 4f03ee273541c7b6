"""The process that computes: its device, its links to the ledger and the store, and the way of one job through it,
product or benchmark.

Celery spawns it, and spawns another when it ends. CUDA lives here alone, never in the parent.
"""

from __future__ import annotations

import os
import time
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
from jobs.fleet.registry import WorkerRegistry
from jobs.ledger.interface import Claimed, Ledger
from jobs.matrices.factory import make_matrix_store
from jobs.matrices.interface import MatrixStore
from jobs.models import BenchmarkOutcome, JobError, Outcome, product_id
from jobs.process import settle_memory
from jobs.queue import make_ledger
from jobs.redis.client import connect
from jobs.settings import Settings
from worker.benchmark.job import benchmark
from worker.cpu.runner import CpuRunner
from worker.device.retry import retry_until
from worker.device.runner import Runner
from worker.process.heartbeat import Heartbeat
from worker.process.lease import EXIT_FAULT, EXIT_NOT_READY, LeaseKeeper, end_process
from worker.process.readiness import prove
from worker.product.multiply import multiply
from worker.product.probe import Probes

CLAIM_TIMEOUT_S = 5.0  # a message given up on is sent again by the sweeper
WORK_TIMEOUT_S = 60.0  # for what is lost with the attempt: operands to be read, a product to be stored or recorded
NOT_READY_PAUSE_S = 5.0  # a child that is not ready waits before it ends, so that its successors do not spin

log = structlog.get_logger(__name__)


class Child:
    """One per process. For use by the thread that runs the tasks."""

    def __init__(self, settings: Settings, runner: Runner, ledger: Ledger, store: MatrixStore) -> None:
        self._settings = settings
        self._runner = runner
        self._ledger = ledger
        self._store = store
        self._probes = Probes(runner) if settings.auto_probes else None
        self._rng = np.random.default_rng()  # seeded by the operating system: the check's vectors must not be known
        self._lease = LeaseKeeper(ledger, settings)
        self._registry = WorkerRegistry(connect(settings), prefix=settings.key_prefix)
        self.heartbeat = Heartbeat(self._registry, runner, settings)

    def prove_ready(self) -> None:
        """Raises NotReady, DeviceFault, StoreUnavailable."""
        started = time.monotonic()
        roofs = retry_until(lambda: self._registry.roofs(self._runner.device), timeout_s=WORK_TIMEOUT_S / 2)
        self._runner.device = self._runner.device.model_copy(update={"measured": roofs})
        count = prove(self._runner, self._rng)
        log.info("ready", device=self._runner.device.name, products=count, seconds=round(time.monotonic() - started, 2))

    # ---- one job ----
    def run(self, job_id: str, attempt: int) -> None:
        """Claims the job, computes it, records its end. Returns at once where the message is stale."""
        claimed = retry_until(lambda: self._claim(job_id, attempt), timeout_s=CLAIM_TIMEOUT_S)
        if claimed is None:
            log.debug("a message came for a job that is not waiting", job=job_id, attempt=attempt)
            return
        with self.heartbeat.busy(job_id):
            try:
                with self._lease.hold(claimed):
                    outcome = self._outcome(claimed)
                self._succeed(claimed, outcome)
            except StaleAttempt:
                log.info("a job was called off", job=job_id, attempt=attempt)
            except JobFailed as failure:
                self._fail(claimed, failure)

    def _claim(self, job_id: str, attempt: int) -> Claimed | None:
        lease_s = self._settings.lease_s
        return self._ledger.claim(job_id, attempt, worker=self.heartbeat.worker_id, lease_s=lease_s)

    def _outcome(self, claimed: Claimed) -> Outcome | BenchmarkOutcome:
        """Raises JobFailed and its kin for whatever goes wrong with this job, but for Redis."""
        try:
            if claimed.job.record.kind == "benchmark":
                return self._benchmark(claimed)
            return retry_until(lambda: self._multiply(claimed), timeout_s=WORK_TIMEOUT_S)
        except SoftTimeLimitExceeded:
            raise TimeLimitExceeded from None
        except MatmulError:
            raise
        except Exception as error:
            log.exception("a job broke off", job=claimed.job.id)
            raise JobFailed("The worker met an error it does not know; its log says more.") from error

    def _multiply(self, claimed: Claimed) -> Outcome:
        return multiply(
            claimed,
            self._store,
            self._runner,
            probes=self._probes,
            rng=self._rng,
            product_ttl_s=self._settings.product_ttl_s,
            check_ownership=self._lease.check,
        )

    def _benchmark(self, claimed: Claimed) -> BenchmarkOutcome:
        worker, device = self.heartbeat.worker_id, self._runner.device
        outcome = benchmark(claimed, self._ledger, self._runner, worker=worker, check=self._lease.check)
        if self._runner.device is not device:  # its roofs were measured
            retry_until(lambda: self._registry.keep_roofs(self._runner.device), timeout_s=WORK_TIMEOUT_S)
        return outcome

    def _succeed(self, claimed: Claimed, outcome: Outcome | BenchmarkOutcome) -> None:
        job = claimed.job
        if isinstance(outcome, Outcome):
            self.heartbeat.verified_products += outcome.verification.passed is True
        taken = retry_until(lambda: self._ledger.succeed(job.id, claimed.attempt, outcome), timeout_s=WORK_TIMEOUT_S)
        if isinstance(outcome, BenchmarkOutcome):
            log.info("measured", job=job.id, taken=taken, measurements=outcome.summary.measurements)
        elif taken:
            log.info("multiplied", job=job.id, kernel=outcome.kernel, kernel_ms=round(outcome.measured.kernel_ms, 3))
            self._drop_inline_operands(claimed)
        else:
            # The job was called off, or is another attempt's by now.
            self._delete(product_id(job.id, claimed.attempt), job.owner)

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

    def _fail(self, claimed: Claimed, failure: JobFailed) -> None:
        """Records why. What may go better elsewhere is queued again; a device that faulted takes this process along."""
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
        if isinstance(failure, DeviceFault):
            end_process(EXIT_FAULT)


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
        ledger = make_ledger(settings, client)
        child = Child(settings, make_runner(settings), ledger, make_matrix_store(settings, client))
        child.prove_ready()
        retry_until(child.heartbeat.start, timeout_s=WORK_TIMEOUT_S / 2)
        settle_memory()
    except Exception as error:
        _give_up(error)
    return child


def _give_up(error: Exception) -> NoReturn:
    detail = error.detail if isinstance(error, MatmulError) else f"{type(error).__name__}: {error}"
    log.error("this worker is not ready; it tries again with a new process", reason=detail, pause_s=NOT_READY_PAUSE_S)
    time.sleep(NOT_READY_PAUSE_S)
    os._exit(EXIT_NOT_READY)
