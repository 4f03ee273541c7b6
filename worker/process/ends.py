"""Records the ends of jobs and cleans up after them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog

from jobs.errors import (
    DeviceFault,
    JobFailed,
    MatrixNotFound,
    NoRoomForProduct,
    OperandDamaged,
    StoreFull,
    StoreUnavailable,
)
from jobs.ledger.acceptance import Acceptance
from jobs.ledger.interface import Claimed, Ledger, Success
from jobs.ledger.successes import SuccessesAhead
from jobs.matrices.interface import MatrixStore
from jobs.models import BenchmarkOutcome, JobError, MatmulRequest, Outcome, product_id
from jobs.settings import Settings
from worker.device.host_lock import LongWait
from worker.device.retry import pause, retry_until
from worker.device.runner import Runner
from worker.process.heartbeat import Heartbeat
from worker.process.lease import EXIT_FAULT, EXIT_QUARANTINED, LeaseKeeper
from worker.product.mismatch import Mismatch
from worker.product.multiply import Multiplied
from worker.product.operands import forget_copies
from worker.product.spent_operands import SpentOperands
from worker.tracing.launches import Launches

WORK_TIMEOUT_S = 60.0  # retry time of steps whose failure would waste the attempt; ends are told for longer
NO_ROOM_PAUSE_S = 0.5  # before a job that found no room goes back into its queue, and maybe comes again at once

TRUSTED_BELOW = 2  # mismatches

Result = TypeVar("Result")
Done = Multiplied | BenchmarkOutcome
End = Done | JobFailed
Ends = Sequence[tuple[Claimed, End]]

log = structlog.get_logger(__name__)


class JobEnds:
    """Records job ends for one child. Safe to share between threads."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        store: MatrixStore,
        runner: Runner,
        heartbeat: Heartbeat,
        lease: LeaseKeeper,
        launches: Launches,
        spent: SpentOperands,
    ) -> None:
        self._settings, self._ledger, self._store, self._runner = settings, ledger, store, runner
        self._heartbeat, self._lease, self._launches = heartbeat, lease, launches
        self._spent = spent

    def record(self, ends: Ends) -> None:
        """Records the ends of one launch. After a device fault this process exits. Raises StoreUnavailable,
        StoreFull.
        """
        steps = Steps(self, self._launches)
        try:
            steps.record(ends)
        finally:
            steps.finish()

    @contextmanager
    def in_steps(self) -> Iterator[Callable[[Ends], None]]:
        """For products that one thread computes one after the other. Yields a function that records ends as `record`
        does, but returns before Redis has answered. The answer is read before the next ends are recorded, and when the
        context ends; until then the leases of the jobs must be held."""
        steps = Steps(self, self._launches)
        try:
            yield steps.record
        finally:
            steps.finish()

    def send(self, ends: Sequence[tuple[Claimed, Done]]) -> Step:
        """Sends the success of these jobs to the ledger. The step that is returned must be settled."""
        done = [_success(claimed, end, self._settings.product_ttl_s) for claimed, end in ends]
        if isinstance(self._ledger, SuccessesAhead):
            return Step(ends, done, self._ledger.send_successes(done))
        return Step(ends, done, partial(self._ledger.succeed_all, done))

    def settle(self, step: Step) -> int:
        """Waits for the ledger's answer and cleans up. Returns how many successes it accepted. Raises StoreUnavailable,
        StoreFull."""
        answers = self._with_retries([claimed for claimed, _ in step.ends], step.answer)
        for (claimed, end), success, answer in zip(step.ends, step.done, answers, strict=True):
            if isinstance(end, Multiplied):
                self._heartbeat.count_product(is_verified=end.outcome.verification.passed is True)
            if answer.is_accepted:
                self._launches.ended(claimed, success.outcome)
            self._clear_up(claimed, success, answer)
        answered = [(claimed, answer) for (claimed, _), answer in zip(step.ends, answers, strict=True)]
        # Where others need operands that were stored for a job, the sweep removes them, once no other job does.
        self._spent.ended([job for job, answer in answered if answer.is_accepted and Acceptance.SHARED not in answer])
        self._give_back([job for job, answer in answered if answer is Acceptance.NO_ROOM])
        return sum(each.is_accepted for each in answers)

    def _clear_up(self, claimed: Claimed, success: Success, answer: Acceptance) -> None:
        """Removes the product if the job was cancelled or has another attempt by now. A product that other jobs wait
        for is kept on the device."""
        if success.product is None:
            product = product_id(claimed.job.id, claimed.attempt)
            self._runner.product_ended(product, awaited=answer.is_accepted and Acceptance.AWAITED in answer)
        if not answer.is_accepted and claimed.job.record.kind == "matmul" and success.product is None:
            self._remove_product(claimed, success)

    def pause_without_room(
        self, claimed: Sequence[Claimed], check_cancelled: Callable[[], None] = lambda: None
    ) -> None:
        """Holds jobs that found no room for a moment, for they may come again at once. It is short while jobs of other
        keys wait, whose room may be another. Raises what `check_cancelled` does, which is called meanwhile."""
        queue, owners = claimed[0].job.queue, {each.job.owner for each in claimed}
        pause(NO_ROOM_PAUSE_S, check_cancelled, until=lambda: self._others_wait(queue, owners))

    def _others_wait(self, queue: str, owners: Collection[str]) -> bool:
        with suppress(StoreUnavailable):
            return self._ledger.others_wait(queue, owners)
        return False

    def _give_back(self, claimed: Sequence[Claimed]) -> None:
        """Returns jobs to their queue if there was no room for their products."""
        if claimed:
            self.pause_without_room(claimed)
            self.fail([(each, NoRoomForProduct()) for each in claimed])

    def _remove_product(self, claimed: Claimed, success: Success) -> None:
        """Removes the product of an attempt that does not count, with its claim, if it has one."""
        product = product_id(claimed.job.id, claimed.attempt)
        try:
            if success.claim is not None and isinstance(success.outcome, Outcome):
                self._store.drop(product, success.outcome.product.dtype, success.outcome.product.shape)
            else:
                self._store.delete(product, owner=claimed.job.owner)
        except (MatrixNotFound, StoreUnavailable, StoreFull) as error:
            log.debug("a product could not be removed", matrix=product, reason=error.type)

    def fail(self, ends: Sequence[tuple[Claimed, JobFailed]]) -> None:
        """Records failures. Jobs that may succeed elsewhere are queued again. If a device faulted, this process
        ends."""
        for claimed, failure in ends:
            self._record_failure(claimed, failure)
        mismatches = [(claimed, failure) for claimed, failure in ends if isinstance(failure, Mismatch)]
        if any([self._is_suspect(claimed, failure) for claimed, failure in mismatches]):
            self._lease.end_child(EXIT_QUARANTINED, "its products come out wrong")
        if any(isinstance(failure, DeviceFault) for _, failure in ends):
            self._lease.end_child(EXIT_FAULT, "its device faulted")

    def _is_suspect(self, claimed: Claimed, failure: Mismatch) -> bool:
        """Whether the device has produced too many wrong products to be trusted."""
        what = failure.kernel or f"{claimed.job.id}.{claimed.attempt}"
        known = retry_until(lambda: self._heartbeat.count_mismatch(what), timeout_s=WORK_TIMEOUT_S)
        log.error("a product was wrong", job=claimed.job.id, repeated_by=failure.kernel, mismatches=known)
        return known >= TRUSTED_BELOW

    def _record_failure(self, claimed: Claimed, failure: JobFailed) -> None:
        job, error = claimed.job, JobError(type=failure.type, detail=failure.detail)
        log.warning("a job failed", job=job.id, attempt=claimed.attempt, error=failure.type, detail=failure.detail)
        if isinstance(failure, OperandDamaged) and isinstance(job.record.request, MatmulRequest):
            forget_copies(job.record.request, self._store)
        try:
            if self._with_retries([claimed], lambda: self._fail_attempt(claimed, failure, error)):
                self._launches.ended(claimed, error)
        except (StoreUnavailable, StoreFull):
            log.warning("the job store does not serve; the sweeper will see to the job", job=job.id)

    def _with_retries(self, claimed: Sequence[Claimed], record: Callable[[], Result]) -> Result:
        """Retries until Redis answers, as long as a time limit of these jobs lasts: finished work is worth as much as a
        job that still runs, which outlives any outage. The lease is no longer renewed, so the retries are more frequent
        than the sweeper's wait after an outage, which is four heartbeats (`jobs/sweeper/sweeper.py`)."""
        pause_s, now = 2 * self._settings.heartbeat_s, time.monotonic()
        timeout_s = max([WORK_TIMEOUT_S, *(each.claimed_at + each.job.timeout_s - now for each in claimed)])
        with LongWait():
            return retry_until(record, timeout_s=timeout_s, longest_pause_s=pause_s)

    def _fail_attempt(self, claimed: Claimed, failure: JobFailed, error: JobError) -> bool:
        """Records a failure; returns whether the attempt still owned the job."""
        job_id, attempt = claimed.job.id, claimed.attempt
        if isinstance(failure, NoRoomForProduct):
            timeout_s, ran_s = self._settings.room_timeout_s, time.monotonic() - claimed.claimed_at
            return self._ledger.give_back(job_id, attempt, error, timeout_s=timeout_s, ran_s=ran_s) is not None
        max_attempts = self._settings.max_attempts if failure.retryable else 1
        return self._ledger.fail(job_id, attempt, error, max_attempts=max_attempts) is not None


@dataclass(frozen=True, slots=True)
class Step:
    """Successes that were sent to the ledger. `answer` waits for the ledger's answers."""

    ends: Sequence[tuple[Claimed, Done]]
    done: Sequence[Success]
    answer: Callable[[], Sequence[Acceptance]]


class Steps:
    """Records the ends of some jobs in steps; at most one step is unanswered at a time. For one thread."""

    def __init__(self, ends: JobEnds, launches: Launches) -> None:
        self._ends, self._launches = ends, launches
        self._behind: Step | None = None
        self._settled: list[tuple[Claimed, Done]] = []
        self._accepted = 0

    def record(self, ends: Ends) -> None:
        """Successes first: a failure may end the process."""
        self._settle()
        self._launches.recording()
        if succeeded := [(job, end) for job, end in ends if not isinstance(end, JobFailed)]:
            self._behind = self._ends.send(succeeded)
        if failed := [(job, end) for job, end in ends if isinstance(end, JobFailed)]:
            self._settle()
            self._ends.fail(failed)

    def finish(self) -> None:
        """Settles the last step and logs one line for all jobs: writing it takes a tenth of a small product's time."""
        self._settle()
        if not self._settled:
            return
        claimed, first = self._settled[0]
        about = {"jobs": len(self._settled), "job": claimed.job.id, "taken": self._accepted}
        if isinstance(first, Multiplied):
            kernel_ms = round(first.outcome.measured.kernel_ms, 3)
            log.info("multiplied", **about, kernel=first.outcome.kernel, kernel_ms=kernel_ms)
        else:
            log.info("measured", **about, measurements=first.summary.measurements)

    def _settle(self) -> None:
        if (step := self._behind) is None:
            return
        self._behind = None
        self._accepted += self._ends.settle(step)
        self._settled += step.ends


def _success(claimed: Claimed, end: Done, product_ttl_s: float) -> Success:
    if isinstance(end, Multiplied):
        claim = None if end.is_claimed else (claimed.job.owner, product_ttl_s)
        return Success(claimed.job.id, claimed.attempt, end.outcome, end.packed, claim)
    return Success(claimed.job.id, claimed.attempt, end)
