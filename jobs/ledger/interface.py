"""The ledger's interface: the authoritative record of all jobs. `RedisLedger` keeps it in Redis.

Every change is a compare-and-set on (state, attempt). `attempt` is the fencing token: it rises with each retry, so a
worker that lost its lease cannot write. The Celery message is only a hint to look here.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jobs.ledger.acceptance import Acceptance
from jobs.ledger.durability import Durability
from jobs.ledger.limits import ALONE, NO_LIMITS, Beside, Limits
from jobs.ledger.messages import JobMessage
from jobs.ledger.queues import FairQueues, SettableClock
from jobs.matrices.packed import PackedMatrix
from jobs.models import ANONYMOUS, BenchmarkOutcome, Job, JobError, JobEvent, NewJob, Outcome, Progress
from jobs.states import JobState
from jobs.tracing.spans import LostAttempt

# How long after its time limit a job's process is killed. A lease expires then even if its worker still renews it.
HARD_LIMIT_MARGIN_S = 10.0
# Messages that workers may have fetched and not claimed yet, while a later one's job starts.
MAY_SWAP = 128
AnyOutcome = Outcome | BenchmarkOutcome


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job that a worker has claimed."""

    job: Job
    attempt: int
    a: PackedMatrix | None = None  # operands that travel in the record
    b: PackedMatrix | None = None
    c: PackedMatrix | None = None
    claimed_at: float = field(init=False, default_factory=time.monotonic, compare=False)
    # Attempts right before this one that were lost or failed, since it was submitted or its caller retried it.
    earlier_runs: int = field(default=0, kw_only=True)


@dataclass(frozen=True, slots=True)
class Success:
    """A job whose attempt has succeeded. `product`: the packed product if it is kept in the record. `claim`: the claim
    to be made on a stored product: its owner, and for how many seconds."""

    job_id: str
    attempt: int
    outcome: AnyOutcome
    product: bytes | None = None
    claim: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Requeued:
    """A job taken back from a silent worker: queued again, or finally failed."""

    job_id: str
    state: JobState
    message: JobMessage | None  # the message sent, if it was queued again
    lost: LostAttempt | None = field(default=None, compare=False)  # the attempt, if a sweeper took it back


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Selects which of an owner's jobs a listing shows. `q` matches part of the id, kernel, error type or device."""

    owner: str = ANONYMOUS
    state: JobState | None = None
    kind: str | None = None
    kernel: str | None = None
    q: str | None = None


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of a listing, newest first. `cursor` continues after the last job; None at the end."""

    jobs: Sequence[Job]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How full a queue is."""

    waiting: int
    oldest_age_s: float | None  # None if nothing waits


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's Idempotency-Key and the fingerprint of the request it came with."""

    key: str
    fingerprint: str


CancelOutcome = Literal["cancelled", "already_cancelled"]


class Ledger(FairQueues, Durability, SettableClock):
    """Every method raises StoreUnavailable if the store does not answer, and StoreFull if it has no memory left."""

    # ---- the service's side ----
    @abstractmethod
    def submit(
        self, job: NewJob, *, max_queued: int, max_queued_per_owner: int, idempotency: IdempotencyKey | None = None
    ) -> tuple[Job, JobMessage | None]:
        """Records the job as queued, attempt 1, sends its message and binds the Idempotency-Key to it, in one step.
        A job whose operands are the products of others is sent once these have succeeded, and fails if one does not.

        If the key is already bound, or the job's id is known, nothing is recorded and that job is returned without a
        message. A key stays bound until it expires, or its job is deleted or expires. Raises QueueFull, QuotaExceeded,
        IdempotencyKeyReused (bound with another fingerprint), StoreFull (no room for its matrices), OperandFailed,
        OperandMissing (job or product of an operand).
        """

    @abstractmethod
    def hold_key(self, owner: str, key: str, *, holder: str, hold_s: float) -> str | None:
        """Reserves the Idempotency-Key for a request in progress, or renews it for the same `holder` (a random token).

        Returns the id of the job bound to it, if any. Raises IdempotencyKeyInUse while another holder has it; a holder
        that does not renew it loses it after `hold_s`.
        """

    @abstractmethod
    def release_key(self, owner: str, key: str, *, holder: str) -> None:
        """Releases the key: later requests with it find the bound job, or start anew if none was bound."""

    @abstractmethod
    def bound_job(self, owner: str, idempotency: IdempotencyKey) -> str | None:
        """Id of the job bound to the key; None if unbound. Raises IdempotencyKeyReused on another fingerprint."""

    @abstractmethod
    def bind_key(self, owner: str, idempotency: IdempotencyKey, subject: str) -> None:
        """Binds the key to the subject of a request other than `submit`: `bound_job` then returns `subject`."""

    @abstractmethod
    def get(self, job_id: str, *, owner: str | None = None, with_product: bool = False) -> Job:
        """The job; with `with_product` including the product in its record, if there is one. Raises JobNotFound, also
        if `owner` is given and does not own the job.
        """

    @abstractmethod
    def list(self, where: JobFilter, *, limit: int, cursor: str | None = None) -> JobPage:
        """The matching jobs, newest first. Raises InvalidRequest for a cursor that is not valid."""

    @abstractmethod
    def cancel(self, job_id: str, *, owner: str | None = None) -> tuple[Job, CancelOutcome]:
        """Cancels a queued or running job at once; its worker learns of it at its next heartbeat. Raises JobNotFound,
        WrongState (succeeded or failed).
        """

    @abstractmethod
    def redrive(
        self, job_id: str, *, owner: str | None = None, limits: Limits = NO_LIMITS, key: IdempotencyKey | None = None
    ) -> tuple[Job, JobMessage | None]:
        """Queues a failed or cancelled job again, with a fresh count of attempts, and sends its message as `submit`.
        If `key` was used for this before, the job is not changed, and there is no message.

        Raises JobNotFound, WrongState, QueueFull, QuotaExceeded, IdempotencyKeyReused, OperandFailed or -Missing."""

    @abstractmethod
    def delete(self, job_id: str, *, owner: str | None = None) -> Job:
        """Deletes the record of a finished job and returns it. Raises JobNotFound, WrongState."""

    @abstractmethod
    def drop_product(self, job_id: str, attempt: int, *, owner: str) -> bool:
        """Drops the product in the record of a job that succeeded at this attempt; False if there is none."""

    @abstractmethod
    def events(self, job_id: str, *, after: str = "0-0", limit: int = 1000) -> Sequence[JobEvent]:
        """The job's events after the given id, oldest first."""

    @abstractmethod
    def findings(self, job_id: str) -> Mapping[str, bytes]:
        """The findings of all its attempts so far; empty for an unknown job or one without findings."""

    @abstractmethod
    def queues(self) -> Sequence[str]:
        """Every queue into which a job was ever put."""

    @abstractmethod
    def dead_letters(self, *, owner: str | None = None, limit: int = 100) -> Sequence[str]:
        """Ids of jobs that used up their attempts, newest first; a redrive or delete removes a job from this list."""

    @abstractmethod
    def depths(self, queues: Sequence[str]) -> Mapping[str, QueueDepth]: ...

    @abstractmethod
    def counts(self) -> Mapping[JobState, int]:
        """How many jobs are in each state."""

    # ---- the worker's side ----
    @abstractmethod
    def claim_batch(
        self, job_id: str, attempt: int, *, worker: str, lease_s: float, max_jobs: int, beside: Beside = ALONE
    ) -> Sequence[Claimed]:
        """queued → running, together with up to `max_jobs` - 1 others that wait in the same queue and may share a
        launch (`NewJob.batch`), oldest first; of jobs that may overlap (BESIDE), up to `beside` in all. The messages of
        these others are removed. Only first attempts are combined. Returns no jobs if the message is stale (no such
        job, another attempt, or not queued). If the same worker asks again, because the first answer may have been
        lost, it gets the same jobs, as far as it still holds them.
        """

    def claim(self, job_id: str, attempt: int, *, worker: str, lease_s: float) -> Claimed | None:
        """The same for one job; None if the message is stale."""
        claimed = self.claim_batch(job_id, attempt, worker=worker, lease_s=lease_s, max_jobs=1)
        return claimed[0] if claimed else None

    @abstractmethod
    def renew(self, job_id: str, attempt: int, *, lease_s: float, ran_s: float | None = None) -> bool:
        """Extends the lease; False if the attempt no longer owns the job and must stop. `ran_s`: how long the worker
        has had the job by its own clock; without it, by the ledger's, which may have been set meanwhile."""

    @abstractmethod
    def progress(self, job_id: str, attempt: int, progress: Progress) -> bool:
        """Records the job's progress; False as for `renew`."""

    @abstractmethod
    def keep_findings(
        self, job_id: str, attempt: int, findings: Mapping[str, bytes], progress: Progress, news: Mapping[str, Any]
    ) -> bool:
        """Stores a benchmark's findings, by name, together with its progress, and publishes `news` on the event stream.
        False as for `renew`. Findings outlive the attempt, and are deleted with the job. Raises StoreFull too.
        """

    @abstractmethod
    def succeed_all(self, done: Sequence[Success]) -> Sequence[Acceptance]:
        """running → succeeded, independently for each job. In the record, the product replaces the operands. Claims on
        operands that were stored for a single job are dropped, and the caller removes their elements from the store.

        Answers for each job: ACCEPTED, with SHARED if its operands must stay; REFUSED if the attempt no longer owns the
        job, whose product must then be discarded; NO_ROOM if the store has no room for a product that is claimed in
        this step, and nothing has changed. Calling it again for an attempt that succeeded returns ACCEPTED, since the
        first answer may have been lost."""

    def succeed(self, job_id: str, attempt: int, outcome: AnyOutcome, product: bytes | None = None) -> bool:
        """The same for one job."""
        return self.succeed_all([Success(job_id, attempt, outcome, product)])[0].is_accepted

    @abstractmethod
    def fail(self, job_id: str, attempt: int, error: JobError, *, max_attempts: int = 1) -> Requeued | None:
        """running → failed; or → queued with attempt + 1 and a new message, if fewer than `max_attempts` runs were made
        since the submission or redrive. None if the attempt no longer owns the job."""

    @abstractmethod
    def give_back(
        self, job_id: str, attempt: int, error: JobError, *, timeout_s: float, ran_s: float | None = None
    ) -> JobState | None:
        """running → queued, at the end of the queue, with attempt + 1 but without counting a run; or → failed with
        `error`, once `timeout_s` have passed since the job was first given back after its submission or redrive. Of
        each wait in the queue at most a sixth of `timeout_s` counts: there may have been room meanwhile. `ran_s`: as
        for `renew`. Returns the new state; None if the attempt no longer owns the job."""

    # ---- the sweeper's side ----
    @abstractmethod
    def lost_messages(self, queue: str, *, broker_is_empty: bool, grace_s: float) -> Sequence[JobMessage]:
        """Queued jobs whose message must have been lost, found without reading the other jobs; at most some hundreds at
        a time. A queue is first in, first out, so a queued job whose message was sent before that of a started job has
        lost it; so has any queued job while the broker's queue is empty. Workers hold messages for a moment before they
        claim, so "before" means by more than `grace_s` or MAY_SWAP messages, and messages younger than `grace_s` are
        skipped. Each is returned with its present number; `republish` gives it a new one.
        """

    @abstractmethod
    def republish(self, message: JobMessage) -> JobMessage | None:
        """Sends a new message, with a new number, for a job that is still queued under the given one; otherwise
        None.
        """

    @abstractmethod
    def expired_leases(self, *, limit: int = 100) -> Sequence[tuple[str, int]]:
        """(job id, attempt) of running jobs whose lease has expired."""

    @abstractmethod
    def take_back(self, job_id: str, attempt: int, *, max_attempts: int) -> Requeued | None:
        """Requeues or fails a job whose lease has expired. It fails with `time_limit_exceeded` if it ran out of time,
        and with `worker_lost` (as a dead letter) after `max_attempts` runs. None if the lease was renewed or the job
        changed state.
        """

    @abstractmethod
    def settle_dependents(self) -> int:
        """Releases or fails jobs that waited for ended jobs and were too many for the step that ended these; returns
        how many.
        """

    @abstractmethod
    def expire(self, *, job_ttl_s: int, limit: int = 100) -> Sequence[Job]:
        """Deletes the records of jobs that ended longer ago than `job_ttl_s`, and returns them."""

    @abstractmethod
    def expire_matrices(self, *, limit: int = 100) -> int:
        """Drops expired matrices in job records; returns the number of jobs concerned."""
