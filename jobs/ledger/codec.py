"""A job as the ledgers store it, and its conversion to the record that HTTP shows."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from jobs.errors import InvalidRequest, JobFailed
from jobs.ledger.chains import sources_of, with_products
from jobs.ledger.fields import NO_PROGRESS, Request, error_of, outcome_of, progress_of, request_to_run, request_to_show
from jobs.ledger.messages import JobMessage
from jobs.models import BenchmarkOutcome, Job, JobError, JobRecord, MatmulRequest, Measured, NewJob, Outcome, Progress
from jobs.redis.clock import instant_of, microseconds
from jobs.requests.operands import OPERANDS
from jobs.states import JobState
from jobs.stored import RecordUnreadable
from jobs.timing import Timing
from jobs.tracing.request_trace import log_fields

EVENTS_TTL_S = 3600  # how long a job's events outlive its end; as in lua/common.lua
EVENTS_KEPT = 1000  # of a job, at most; as in lua/common.lua
SCAN_LIMIT = 1000  # jobs that a filtered listing looks at for one page
LOST_LIMIT = 500  # lost messages reported at a time

_LAST_US = 253_402_300_799_999_999  # the last of the year 9999
_EVENT_ID = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?", re.ASCII)


@dataclass(slots=True)
class JobRow:
    """One job. Times are microseconds since the epoch, of the ledger's own clock."""

    id: str
    owner: str
    kind: str  # a JobKind, or one of another version
    queue: str
    timeout_us: int
    request: Request
    seq: int  # rises with each job recorded: the order of listings
    created_us: int
    state: JobState
    attempt: int  # the fencing token; never falls
    runs: int  # claims since submission or the last redrive
    version: int
    number: int  # of its latest message
    first: int  # of the first message of this attempt
    published_us: int
    queued_us: int
    started_us: int | None = None
    seen_us: int | None = None  # when its worker was last heard of
    finished_us: int | None = None
    progress: Progress = NO_PROGRESS
    outcome: Outcome | BenchmarkOutcome | None = None
    error: JobError | None = None
    idem: str | None = None  # digest of the Idempotency-Key bound to it
    batch: str | None = None  # jobs with the same one may be computed in one launch
    in_record: str = ""  # the operands there
    held: int = 0  # bytes that it is charged for matrices in its record
    product_bytes: int = 0  # space in the record for its product; 0: the product goes to the store
    attempts: dict[str, int] = field(default_factory=dict)  # of other jobs, whose products are operands
    waits: bool = False  # for such a product
    unserved: bool = False  # no live worker takes from its queue
    trace: str = ""  # of the request that it came with
    worker: str = ""  # that claimed it last

    def message(self) -> JobMessage:
        return JobMessage(self.id, self.attempt, self.queue, self.number, self.timeout_us / 1e6)

    def job(self, queue_position: int | None, *, packed_product: bytes | None = None) -> Job:
        """The job. `queue_position` counts from 1; None if the job does not wait. `packed_product`: as in `Job`."""
        return Job(
            record=self._record(queue_position),
            owner=self.owner,
            queue=self.queue,
            version=self.version,
            timeout_s=self.timeout_us / 1e6,
            operands_in_record=self.in_record,
            matrices_kept=self.held > 0,
            product_in_record=self.product_bytes > 0,
            packed_product=packed_product,
            trace=self.trace,
            queued_us=self.queued_us,
            worker=self.worker,
            batch=self.batch or "",
        )

    def _record(self, queue_position: int | None) -> JobRecord:
        outcome = self.outcome if isinstance(self.outcome, Outcome) else None
        benchmark = self.outcome if isinstance(self.outcome, BenchmarkOutcome) else None
        parts: dict[str, Any] = dict(
            id=self.id,
            kind=self.kind,
            state=self.state,
            attempt=self.attempt,
            created_at=instant_of(self.created_us),
            started_at=None if self.started_us is None else instant_of(self.started_us),
            finished_at=None if self.finished_us is None else instant_of(self.finished_us),
            queue_position=queue_position,
            progress=self._progress(),
            request=self._request(),
            kernel=outcome and outcome.kernel,
            config=outcome and outcome.config,
            why=outcome and outcome.why,
            device=self.outcome and self.outcome.device,
            product=outcome and outcome.product,
            timing=outcome and self._timing(outcome),
            error_bound=outcome and outcome.error_bound,
            gflops=outcome and outcome.gflops,
            verification=outcome and outcome.verification,
            batch=outcome and outcome.batch,
            benchmark=benchmark and benchmark.summary,
            error=self.error,
            **log_fields(self.trace),
        )
        try:
            return JobRecord(**parts)
        except ValidationError:  # of another version: each part was read as far as it can be
            return JobRecord.model_construct(**parts)

    def _request(self) -> Request:
        if self.attempts and isinstance(self.request, MatmulRequest):
            return with_products(self.request, self.attempts, self.in_record)
        return self.request

    def missing(self) -> dict[str, str]:
        """For each operand whose product does not exist yet, the id of its job."""
        return {name: job for name, job in sources_of(self.request).items() if name not in self.attempts}

    def _progress(self) -> Progress:
        if self.waits:
            return Progress(done=0, total=1, current=f"waits for {' and '.join(sorted({*self.missing().values()}))}")
        if self.unserved:
            return Progress(done=0, total=1, current=f"waits for a worker of the queue {self.queue}; none is live")
        if self.state is JobState.SUCCEEDED:
            return Progress(done=self.progress.total, total=self.progress.total)
        return self.progress

    def _timing(self, outcome: Outcome) -> Timing | None:
        measured: Measured | None = outcome.measured  # None where it could not be read
        if measured is None or self.started_us is None or self.finished_us is None:
            return None
        return Timing(
            queue_ms=max(0, self.started_us - self.queued_us) / 1e3,
            h2d_ms=measured.h2d_ms,
            kernel_ms=measured.kernel_ms,
            d2h_ms=measured.d2h_ms,
            total_ms=max(0, self.finished_us - self.created_us) / 1e3,
        )


def new_row(job: NewJob, *, seq: int, created_us: int, number: int) -> JobRow:
    """The row that lua/submit.lua writes for a new job."""
    packed = {name: matrix for name in OPERANDS if (matrix := getattr(job.matrices, name))}
    return JobRow(
        id=job.id,
        owner=job.owner,
        kind=job.kind,
        queue=job.queue,
        timeout_us=microseconds(job.timeout_s),
        request=job.request,
        seq=seq,
        created_us=created_us,
        state=JobState.QUEUED,
        attempt=1,
        runs=0,
        version=1,
        number=number,
        first=number,
        published_us=created_us,
        queued_us=created_us,
        batch=job.batch or None,
        in_record="".join(packed),
        held=sum(map(len, packed.values())) + job.matrices.product_bytes,
        product_bytes=job.matrices.product_bytes,
        trace=job.trace,
    )


# The fields of a job that scripts read: the same as READ in lua/common.lua.
READ = (
    *("state", "attempt", "version", "owner", "seq", "held", "ttl", "in_record", "reply_to", "queued", "started"),
    *("created", "a_attempt", "b_attempt", "waits", "needs", "dependents", "cost", "id", "queue", "runs", "timeout"),
    *("number", "first", "product_bytes", "batch", "kind", "request", "trace"),
)


def claimed_row(
    values: Sequence[bytes | None], *, version: int, started_us: int, c_attempt: bytes | None, progress: bytes | None
) -> JobRow:
    """The row of a job that a worker has just claimed. Raises NotUnderstood if this version does not know what the job
    asks for.
    """
    fields = {name: value for name, value in zip(READ, values, strict=True) if value is not None}
    fields |= {"state": b"running", "version": b"%d" % version, "started": b"%d" % started_us}
    fields |= {name: value for name, value in (("c_attempt", c_attempt), ("progress", progress)) if value is not None}
    request = request_to_run(fields["kind"].decode(), fields["request"])
    return _row(fields | {"published": fields["queued"]}, request)


def row_from_hash(flat: Sequence[bytes]) -> JobRow:
    """A row from HGETALL's name, value, name, value…; the fields are those that lua/*.lua write. Fields written by
    another version are read as far as possible. Raises RecordUnreadable if even the fields that scripts keep of every
    job cannot be read.
    """
    fields = {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
    try:
        return _row(fields, request_to_show(fields["kind"].decode(), fields["request"]))
    except (KeyError, ValueError) as error:
        raise RecordUnreadable from error


def _row(fields: Mapping[str, bytes], request: Request) -> JobRow:
    kind, state = fields["kind"].decode(), JobState(fields["state"].decode())
    return JobRow(
        id=fields["id"].decode(),
        owner=fields["owner"].decode(),
        kind=kind,
        queue=fields["queue"].decode(),
        timeout_us=_whole(fields["timeout"]),
        request=request,
        seq=_whole(fields["seq"]),
        created_us=_whole(fields["created"]),
        state=state,
        attempt=_whole(fields["attempt"]),
        runs=_whole(fields["runs"]),
        version=_whole(fields["version"]),
        number=int(fields["number"]),
        first=int(fields["first"]),
        published_us=_whole(fields["published"]),
        queued_us=_whole(fields["queued"]),
        started_us=_optional_int(fields, "started"),
        seen_us=_optional_int(fields, "seen"),
        finished_us=_optional_int(fields, "finished"),
        progress=progress_of(fields),
        outcome=outcome_of(kind, fields.get("outcome")),
        error=error_of(fields.get("error")) if state is JobState.FAILED else None,
        idem=fields["idem"].decode() if "idem" in fields else None,
        batch=fields["batch"].decode() if "batch" in fields else None,
        in_record=fields["in_record"].decode().removesuffix("C"),  # only scripts use it: c is a job's product
        held=_whole(fields.get("held", b"0")),
        product_bytes=_whole(fields["product_bytes"]),
        attempts={name: _whole(fields[f"{name}_attempt"]) for name in OPERANDS if f"{name}_attempt" in fields},
        waits=fields.get("waits") == b"1",
        unserved="unserved" in fields,
        trace=fields.get("trace", b"").decode(),
        worker=fields.get("worker", b"").decode(),
    )


def _optional_int(fields: Mapping[str, bytes], name: str) -> int | None:
    return _whole(fields[name]) if name in fields else None


def _whole(text: bytes) -> int:
    """Parses a count, size or time written by a script. Raises ValueError if it is out of range for a point in time."""
    if not 0 <= (value := int(text)) <= _LAST_US:
        raise ValueError
    return value


def job_error(kind: type[JobFailed]) -> JobError:
    """The error of a record, with type and title from the error tree."""
    error = kind()
    return JobError(type=error.type, detail=error.detail)


def cursor_after(seq: int) -> str:
    return base64.urlsafe_b64encode(b"j%d" % seq).decode().rstrip("=")


def cursor_seq(cursor: str) -> int:
    """The sequence number that a cursor stands for. Raises InvalidRequest if the cursor is not valid."""
    try:
        text = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if (found := re.fullmatch(rb"j(\d{1,15})", text)) is None:
            raise ValueError
    except (ValueError, binascii.Error):
        raise InvalidRequest("This cursor is not one of ours; start again without one.", field="cursor") from None
    return int(found[1])


def event_place(event_id: str) -> tuple[int, int]:
    """A stream id as a pair of numbers. Raises InvalidRequest if it is not valid."""
    found = _EVENT_ID.fullmatch(event_id)
    place = (int(found[1]), int(found[2] or 0)) if found else (-1, 0)
    if not all(0 <= part < 1 << 64 for part in place):
        raise InvalidRequest("This is not the id of an event; ids look like 1700000000000-0.", field="Last-Event-ID")
    return place
