"""Computes claimed jobs: in one launch, or one by one. Every error of a job becomes the end of that job."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from types import TracebackType

import structlog
from celery.exceptions import SoftTimeLimitExceeded

from jobs.errors import (
    DeviceFault,
    JobFailed,
    MatmulError,
    NoRoomForProduct,
    StaleAttempt,
    StoreUnavailable,
    TimeLimitExceeded,
)
from jobs.fleet.registry import WorkerRegistry
from jobs.ledger.interface import Claimed, Ledger
from jobs.matrices.interface import MatrixStore
from jobs.models import BenchmarkOutcome, MatmulRequest
from jobs.settings import Settings
from worker.benchmark.job import benchmark
from worker.device.retry import retry_until
from worker.device.runner import Runner
from worker.process.ends import WORK_TIMEOUT_S, End, Ends, JobEnds
from worker.process.job_threads import Room
from worker.process.lease import Hold, LeaseKeeper
from worker.product.auto import AutoChoices
from worker.product.batch import multiply_batch
from worker.product.claim_parts import request_of
from worker.product.fresh_random import fresh_rng
from worker.product.multiply import Multiplied, multiply
from worker.tracing.phases import one_job

SLICE_S = 0.004  # of light jobs, until their ends are recorded: recording takes a tenth of it

log = structlog.get_logger(__name__)


class JobComputer:
    """Computes the jobs of one child. Safe to share between threads."""

    def __init__(
        self,
        settings: Settings,
        runner: Runner,
        ledger: Ledger,
        store: MatrixStore,
        registry: WorkerRegistry,
        auto: AutoChoices,
        ends: JobEnds,
        *,
        worker_id: str,
    ) -> None:
        self._settings, self._runner, self._ledger, self._store = settings, runner, ledger, store
        self._registry, self._auto, self._ends, self._worker_id = registry, auto, ends, worker_id
        self._room = Room(runner.max_bytes_under_way)

    def one_launch(self, claimed: Sequence[Claimed], hold: Hold) -> Ends:
        """Computes jobs in one launch. If one product is wrong, each job is then computed by itself, so only that one
        fails. Cancelled jobs have no end.
        """
        if len(claimed) == 1:
            return self._one_by_one(claimed, hold)
        bytes_in_all = sum([request_of(each).matrix_bytes for each in claimed])
        try:
            with _ErrorsNamed(claimed), self._room.taken(bytes_in_all, hold.check):
                done = multiply_batch(
                    claimed,
                    self._store,
                    self._runner,
                    auto=self._auto,
                    rng=fresh_rng(),
                    product_ttl_s=self._settings.product_ttl_s,
                    check_ownership=hold.check,
                )
            return list(zip(claimed, done, strict=True))
        except (DeviceFault, TimeLimitExceeded) as failure:
            return [(each, failure) for each in claimed]
        except NoRoomForProduct as failure:
            self._ends.pause_without_room(claimed)
            return [(each, failure) for each in claimed]
        except (JobFailed, StaleAttempt, StoreUnavailable) as reason:
            log.info("jobs of one launch are computed one by one", jobs=len(claimed), reason=str(reason))
            return self._one_by_one(claimed, hold)

    def light_jobs(
        self,
        claimed: Sequence[Claimed],
        lease: LeaseKeeper,
        in_steps: Callable[[], AbstractContextManager[Callable[[Ends], None]]],
    ) -> None:
        """Computes the light products of one claim one after the other, each with a time limit of its own, which
        starts when the job begins.

        Their ends are recorded by `in_steps` in few steps, as long as this delays no caller; while Redis carries out a
        step the next products are computed. Cancelled jobs are skipped. After a device fault no more are begun:
        recording it hands the others back. All leases are kept until the last end is recorded.
        """
        ends: list[tuple[Claimed, End]] = []
        with lease.hold(claimed, waits=True) as waiting, in_steps() as record:
            slice_began = time.monotonic()
            for each in claimed:
                with suppress(StaleAttempt), lease.hold([each]) as hold:
                    waiting.check(each)
                    ends += self._one_by_one([each], hold)
                is_faulty = bool(ends) and isinstance(ends[-1][1], DeviceFault)
                if is_faulty or time.monotonic() - slice_began > SLICE_S:
                    record(ends)
                    if is_faulty:
                        return
                    ends, slice_began = [], time.monotonic()
            record(ends)

    def _one_by_one(self, claimed: Sequence[Claimed], hold: Hold) -> list[tuple[Claimed, End]]:
        """Computes jobs one by one. Cancelled ones are skipped. After a device fault no more are tried."""
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
        """The outcome of a job. Raises StaleAttempt once it is lost, and JobFailed or a subclass for every error of
        this job, except those of Redis.
        """
        one_job(claimed.job.id)
        check = partial(hold.check, claimed)
        with _ErrorsNamed([claimed]):
            if claimed.job.record.kind == "benchmark":
                return self._benchmark(claimed, check)
            product = partial(self._multiply, claimed, check)
            try:
                return retry_until(product, timeout_s=WORK_TIMEOUT_S, check_cancelled=check)
            except NoRoomForProduct:
                self._ends.pause_without_room([claimed], check)  # only the job itself is held now
                raise

    def _multiply(self, claimed: Claimed, check_ownership: Callable[[], None]) -> Multiplied:
        request = claimed.job.record.request
        assert isinstance(request, MatmulRequest), "benchmarks go another way"
        with self._room.taken(request.matrix_bytes, check_ownership):
            try:
                return multiply(
                    claimed,
                    self._store,
                    self._runner,
                    auto=self._auto,
                    rng=fresh_rng(),
                    product_ttl_s=self._settings.product_ttl_s,
                    check_ownership=check_ownership,
                    ledger=self._ledger,
                )
            except StoreUnavailable as error:
                if error.resource != "redis":  # small jobs need none, so they are not to wait for this one
                    raise NoRoomForProduct(error.detail) from error
                raise

    def _benchmark(self, claimed: Claimed, check_ownership: Callable[[], None]) -> BenchmarkOutcome:
        device = self._runner.device
        outcome = benchmark(claimed, self._ledger, self._runner, worker=self._worker_id, check=check_ownership)
        if self._runner.device is not device:  # its roofs were measured
            retry_until(lambda: self._registry.keep_roofs(self._runner.device), timeout_s=WORK_TIMEOUT_S)
        return outcome


class _ErrorsNamed:
    """Translates unexpected errors into JobFailed."""

    def __init__(self, claimed: Sequence[Claimed]) -> None:
        self._claimed = claimed

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if isinstance(error, SoftTimeLimitExceeded):
            raise TimeLimitExceeded from None
        if isinstance(error, Exception) and not isinstance(error, MatmulError):
            log.exception("a job broke off", jobs=[each.job.id for each in self._claimed], exc_info=error)
            raise JobFailed("The worker met an error it does not know; its log says more.") from error
