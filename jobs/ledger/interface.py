"""The ledger's interface: the truth about all jobs. `RedisLedger` keeps it in Redis.

Every change is a compare-and-set on (state, attempt). `attempt` is the fencing token: it rises with each retry, so a
worker that was given up on cannot write. The Celery message is only a hint to look here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jobs.ledger.chains import Taken
from jobs.ledger.fairness import FairQueues
from jobs.ledger.giving_back import GivesBack
from jobs.ledger.limits import ALONE, NO_LIMITS, Beside, Limits
from jobs.matrices.packed import PackedMatrix
from jobs.models import ANONYMOUS, BenchmarkOutcome, Job, JobError, JobEvent, NewJob, Outcome, Progress
from jobs.states import JobState
from jobs.tracing.spans import LostAttempt

# How long after its time limit a job's process is ended by force. No lease outlives that, even of one that still beats.
HARD_LIMIT_MARGIN_S = 10.0
# Messages that workers may have fetched and not claimed yet, while a later one's job starts.
MAY_SWAP = 128
AnyOutcome = Outcome | BenchmarkOutcome


@dataclass(frozen=True, slots=True)
class JobMessage:
    """The Celery message of a queued job. `number` rises per queue with each message sent; up to 0: it is not sent."""

    job_id: str
    attempt: int
    queue: str
    number: int
    timeout_s: float
    trace: str = field(default="", compare=False)  # the job's, where the message was lost


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job now held by a worker."""

    job: Job
    attempt: int
    a: PackedMatrix | None = None  # operands that travel in the record
    b: PackedMatrix | None = None
    c: PackedMatrix | None = None


@dataclass(frozen=True, slots=True)
class Success:
    """A job whose attempt is done. `product`: packed, where it travels in the record. `claim`: that is to be made on
    one in the store: its owner, and for how many seconds."""

    job_id: str
    attempt: int
    outcome: AnyOutcome
    product: bytes | None = None
    claim: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Requeued:
    """A job taken back from a silent worker: queued again, or failed for good."""

    job_id: str
    state: JobState
    message: JobMessage | None  # sent, where it is queued again
    lost: LostAttempt | None = field(default=None, compare=False)  # the attempt, where a sweeper took it back


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which of an owner's jobs a listing shows. `q` matches part of the id, kernel, error type or device."""

    owner: str = ANONYMOUS
    state: JobState | None = None
    kind: str | None = None
    kernel: str | None = None
    q: str | None = None


@dataclass(frozen=True, slots=True)
class JobPage:
    """Newest first. `cursor` continues after the last; None at the end."""

    jobs: Sequence[Job]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How full a queue is."""

    waiting: int
    oldest_age_s: float | None  # None where nothing waits


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's Idempotency-Key and the fingerprint of the request it came with."""

    key: str
    fingerprint: str


CancelOutcome = Literal["cancelled", "already_cancelled"]


class Ledger(FairQueues, GivesBack):
    """Raises StoreUnavailable where the store does not answer, StoreFull where it has no memory left."""

    # ---- the service's side ----
    @abstractmethod
    def submit(
        self, job: NewJob, *, max_queued: int, max_queued_per_owner: int, idempotency: IdempotencyKey | None = None
    ) -> tuple[Job, JobMessage | None]:
        """Records the job as queued, attempt 1, sends its message and binds the Idempotency-Key to it, in one step.
        A job whose operands are the products of others is sent once these have succeeded, and fails if one does not.

        Where the key is bound already, or the job's id known, that job comes back with no message (nothing is
        recorded). A key is bound until its time is up or its job is deleted or expires.
        Raises QueueFull, QuotaExceeded, IdempotencyKeyReused (bound with another fingerprint), StoreFull (no
        room for its matrices), OperandFailed, OperandMissing (job or product of an operand).
        """

    @abstractmethod
    def hold_key(self, owner: str, key: str, *, holder: str, hold_s: float) -> str | None:
        """Takes the Idempotency-Key for a request under way, or renews it for the same `holder` (a random token).

        Returns the id of the job bound to it, if any. Raises IdempotencyKeyInUse while another holder has it; a holder
        that falls silent loses it after `hold_s`.
        """

    @abstractmethod
    def release_key(self, owner: str, key: str, *, holder: str) -> None:
        """Lets go of the key: later requests with it find the bound job, or start afresh where none was bound."""

    @abstractmethod
    def bound_job(self, owner: str, idempotency: IdempotencyKey) -> str | None:
        """Id of the job bound to the key; None if unbound. Raises IdempotencyKeyReused on another fingerprint."""

    @abstractmethod
    def bind_key(self, owner: str, idempotency: IdempotencyKey, subject: str) -> None:
        """Binds the key to what a request other than `submit` was about: `bound_job` then gives `subject`."""

    @abstractmethod
    def get(self, job_id: str, *, owner: str | None = None, with_product: bool = False) -> Job:
        """`with_product`: with the product that is in its record, if it is there. Raises JobNotFound; also where
        `owner` is given and is not the job's."""

    @abstractmethod
    def list(self, where: JobFilter, *, limit: int, cursor: str | None = None) -> JobPage:
        """Newest first. Raises InvalidRequest for a cursor that is not one of ours."""

    @abstractmethod
    def cancel(self, job_id: str, *, owner: str | None = None) -> tuple[Job, CancelOutcome]:
        """Ends a queued or running job now; its worker finds out at its next heartbeat. Raises JobNotFound, WrongState
        (succeeded or failed)."""

    @abstractmethod
    def redrive(
        self, job_id: str, *, owner: str | None = None, limits: Limits = NO_LIMITS, key: IdempotencyKey | None = None
    ) -> tuple[Job, JobMessage | None]:
        """Queues a failed or cancelled job again, with a fresh count of attempts, and sends its message as `submit`.
        Where `key` was used for this before, the job stays as it is, and there is no message.

        Raises JobNotFound, WrongState, QueueFull, QuotaExceeded, IdempotencyKeyReused, OperandFailed or -Missing."""

    @abstractmethod
    def delete(self, job_id: str, *, owner: str | None = None) -> Job:
        """Forgets a job that is at its end; returns what it was. Raises JobNotFound, WrongState."""

    @abstractmethod
    def drop_product(self, job_id: str, attempt: int, *, owner: str) -> bool:
        """Drops the product in the record of a job that succeeded at this attempt; False where there is none."""

    @abstractmethod
    def events(self, job_id: str, *, after: str = "0-0", limit: int = 1000) -> Sequence[JobEvent]:
        """The job's events after the given id, oldest first."""

    @abstractmethod
    def findings(self, job_id: str) -> Mapping[str, bytes]:
        """What its attempts have found so far; none for a job that is not there, or has found nothing."""

    @abstractmethod
    def queues(self) -> Sequence[str]:
        """Every queue that a job was ever put in."""

    @abstractmethod
    def dead_letters(self, *, owner: str | None = None, limit: int = 100) -> Sequence[str]:
        """Ids of jobs that used up their attempts, newest first; a redrive or delete takes them off."""

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
        """queued → running, with up to `max_jobs` - 1 others that wait in the same queue and may be computed in one
        launch (`NewJob.batch`), oldest first; of jobs that may be under way beside each other (BESIDE), `beside` in
        all. Their messages are taken back. Only first attempts go together.

        None at all where the message is stale (no such job, another attempt, or not queued). Asked again by the worker
        that claimed it, whose first answer may have been lost on its way, it gives the same jobs, as far as they are
        still that worker's.
        """

    def claim(self, job_id: str, attempt: int, *, worker: str, lease_s: float) -> Claimed | None:
        """The same for one job; None where the message is stale."""
        claimed = self.claim_batch(job_id, attempt, worker=worker, lease_s=lease_s, max_jobs=1)
        return claimed[0] if claimed else None

    @abstractmethod
    def renew(self, job_id: str, attempt: int, *, lease_s: float) -> bool:
        """Extends the lease; False where the attempt no longer owns the job, and must stop."""

    @abstractmethod
    def progress(self, job_id: str, attempt: int, progress: Progress) -> bool:
        """Records how far it is; False as for `renew`."""

    @abstractmethod
    def keep_findings(
        self, job_id: str, attempt: int, findings: Mapping[str, bytes], progress: Progress, news: Mapping[str, Any]
    ) -> bool:
        """Keeps what a benchmark has found, by name, with how far it is, and tells `news` on the event stream.

        False as for `renew`. Findings outlive the attempt, and go with the job. Raises StoreFull too.
        """

    @abstractmethod
    def succeed_all(self, done: Sequence[Success]) -> Sequence[Taken]:
        """running → succeeded, each by itself. The operands in their records go, the products there come. Of operands
        that were stored for one job the claims go; who calls this removes their elements from the store, but for those
        of Taken.SHARED.

        Taken.NO where the attempt no longer owns the job (its product must be thrown away); Taken.NO_ROOM where the
        stores have no room for a product that is claimed with this, which has changed nothing. Asked again by the
        attempt that succeeded it says YES: the first answer may have been lost on its way.
        """

    def succeed(self, job_id: str, attempt: int, outcome: AnyOutcome, product: bytes | None = None) -> bool:
        """The same for one job."""
        return self.succeed_all([Success(job_id, attempt, outcome, product)])[0].is_taken

    @abstractmethod
    def fail(self, job_id: str, attempt: int, error: JobError, *, max_attempts: int = 1) -> Requeued | None:
        """running → failed; or → queued with attempt + 1 and a new message, while runs are left of the `max_attempts`
        that a submission or redrive gives.

        None where the attempt no longer owns the job.
        """

    # ---- the sweeper's side ----
    @abstractmethod
    def lost_messages(self, queue: str, *, broker_is_empty: bool, grace_s: float) -> Sequence[JobMessage]:
        """Queued jobs whose message must be gone, without reading the others; at most some hundreds at a time.

        A queue is first in, first out, so a queued job whose message was sent before that of a job already started has
        lost it; so has any queued job while the broker's queue is empty. A worker holds a message for a moment before
        it claims the job, so what counts as before is `grace_s`, or MAY_SWAP messages. Only those sent more than
        `grace_s` ago count. Each comes back with its present number: `republish` gives it a new one.
        """

    @abstractmethod
    def republish(self, message: JobMessage) -> JobMessage | None:
        """Sends a new message, with a new number, for a job still queued under that one; None where it moved on."""

    @abstractmethod
    def expired_leases(self, *, limit: int = 100) -> Sequence[tuple[str, int]]:
        """(job id, attempt) of running jobs whose lease ran out."""

    @abstractmethod
    def take_back(self, job_id: str, attempt: int, *, max_attempts: int) -> Requeued | None:
        """Takes a job whose lease ran out from its worker: queued again, or failed.

        `time_limit_exceeded` where its time was up, `worker_lost` (and a dead letter) where `max_attempts` runs were
        made. None where the lease was renewed or the job moved on.
        """

    @abstractmethod
    def settle_dependents(self) -> int:
        """Sees to jobs that waited for ended ones and were too many for the step that ended these; to how many."""

    @abstractmethod
    def expire(self, *, job_ttl_s: int, limit: int = 100) -> Sequence[Job]:
        """Forgets jobs that ended longer ago than `job_ttl_s`; returns what they were."""

    @abstractmethod
    def expire_matrices(self, *, limit: int = 100) -> int:
        """Drops the matrices in the records of jobs whose time is up; of how many jobs."""
