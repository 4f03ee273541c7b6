"""Log fields and spans of a worker's jobs: each log line names the request of its job and, if spans are exported, there
is a span for each attempt and for each of its phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from jobs.errors import MatmulError, StoreUnavailable
from jobs.ledger.chains import sources_of
from jobs.ledger.interface import Claimed, Ledger
from jobs.logs import about
from jobs.models import BenchmarkOutcome, JobError, Outcome
from jobs.states import JobState
from jobs.tracing.request_trace import RequestTrace
from jobs.tracing.spans import LAUNCH, Link, Span, Tracing, attempt_span, queue_span, span_id
from worker.tracing import phases
from worker.tracing.phases import Phase, Phases

FLUSH_S = 0.5  # before a process ends that must
End = Outcome | BenchmarkOutcome | JobError


def log_fields(claimed: Sequence[Claimed]) -> Mapping[str, object]:
    """The fields of a log line that name the requests which made these jobs."""
    traces = [trace for each in claimed if (trace := _trace(each)) is not None]
    if len(traces) < 2:
        return traces[0].log_fields if traces else {}
    return {"request_ids": [each.request_id for each in traces], "trace_ids": [each.trace_id for each in traces]}


def named(claimed: Sequence[Claimed]) -> AbstractContextManager[None]:
    """Log lines inside name the requests of these jobs."""
    return _Named(claimed)


class _Named(AbstractContextManager[None]):
    """A generator's context would take longer."""

    def __init__(self, claimed: Sequence[Claimed]) -> None:
        self._claimed = claimed

    def __enter__(self) -> None:
        self._token = about.set(self._log_fields)

    def __exit__(self, *_: object) -> None:
        about.reset(self._token)

    def _log_fields(self) -> Mapping[str, object]:
        return log_fields(self._claimed)


def _trace(claimed: Claimed) -> RequestTrace | None:
    return RequestTrace.read(claimed.job.trace)


class Launch:
    """Jobs that are computed together, or one. `claim`: when the claim was sent and when it was answered, in
    nanoseconds."""

    def __init__(self, tracing: Tracing, ledger: Ledger, claimed: Sequence[Claimed], claim: tuple[int, int]) -> None:
        self._tracing, self._ledger = tracing, ledger
        self._claim = claim
        self.phases = Phases()
        self._recording_ns = 0
        sampled = [each for each in claimed if (trace := _trace(each)) is not None and trace.is_sampled]
        self.left = sampled  # those whose end has not been reported yet
        self._host = sampled[0] if len(claimed) > 1 and sampled else None  # in whose trace the launch is
        self._members = sampled

    def recording(self) -> None:
        """Called when everything is computed and the ends are about to be recorded."""
        self._recording_ns = phases.now()
        if self._host is None or (trace := _trace(self._host)) is None:
            return
        job_id, attempt = self._host.job.id, self._host.attempt
        own, parent = span_id(job_id, attempt, LAUNCH), span_id(job_id, attempt)
        links = [_link(each) for each in self._members]
        size = {"matmul.batch": len(self._members)}
        self._tracing.tell(
            trace, Span(LAUNCH, self._claim[1], self._recording_ns, own, parent, attributes=size, links=links)
        )
        self._tell_phases(trace, own, [each for each in self.phases.found if each.job is None])

    def ended(self, claimed: Claimed, end: End) -> None:
        """Called when the end of a job's attempt has been recorded."""
        self.left = [each for each in self.left if each is not claimed]
        if (trace := _trace(claimed)) is None or not trace.is_sampled:
            return
        job, attempt, ended_ns = claimed.job, claimed.attempt, phases.now()
        self._tell_phases(trace, span_id(job.id, attempt), self._own_phases(claimed, ended_ns))
        self._tracing.tell(trace, queue_span(job.id, attempt, job.queued_us, _started_us(claimed)))
        self._tracing.tell(
            trace,
            attempt_span(
                trace,
                job.id,
                attempt,
                (self._claim[0], ended_ns),
                attributes={"matmul.queue": job.queue, "matmul.job.kind": job.record.kind, **_device_and_kernel(end)},
                links=(*self._link_to_launch(), *self._links_to_sources(claimed)),
                error=(end.type, end.detail) if isinstance(end, JobError) else None,
            ),
        )

    def _own_phases(self, claimed: Claimed, ended_ns: int) -> list[Phase]:
        """The phases of one job: its claim, its end, and everything that was not done for the launch as a whole."""
        of_job = (claimed.job.id,) if self._host else (claimed.job.id, None)
        own = [each for each in self.phases.found if each.job in of_job]
        end = [Phase("end", self._recording_ns, ended_ns)] if self._recording_ns else []
        return [Phase("claim", *self._claim), *own, *end]

    def _tell_phases(self, trace: RequestTrace, parent: str, found: Sequence[Phase]) -> None:
        for each in found:
            self._tracing.tell(
                trace, Span(each.name, each.start_ns, each.end_ns, parent=parent, attributes=each.attributes)
            )

    def _link_to_launch(self) -> Sequence[Link]:
        if self._host is None or (trace := _trace(self._host)) is None:
            return ()
        return (Link(trace.trace_id, span_id(self._host.job.id, self._host.attempt, LAUNCH)),)

    def _links_to_sources(self, claimed: Claimed) -> Sequence[Link]:
        """The attempts whose products are operands. They are looked up, for a job knows no other's trace."""
        sources = {*sources_of(claimed.job.record.request).values()}
        return [link for job_id in sources if (link := self._link_to(job_id)) is not None]

    def _link_to(self, job_id: str) -> Link | None:
        try:
            source = self._ledger.get(job_id)
        except MatmulError:  # it is gone, or Redis is away
            return None
        trace = RequestTrace.read(source.trace)
        return None if trace is None else Link(trace.trace_id, span_id(job_id, source.record.attempt))

    def called_off(self) -> None:
        """Reports the jobs whose end was not recorded here, if they were cancelled. Whoever gave up on an attempt
        reports that one."""
        for claimed in self.left:
            try:
                record = self._ledger.get(claimed.job.id).record
            except StoreUnavailable:
                return
            except MatmulError:  # it is gone
                continue
            if record.state is JobState.CANCELLED and record.attempt == claimed.attempt:
                self.ended(claimed, JobError(type="cancelled", detail="The job was cancelled."))


def _device_and_kernel(end: End) -> Mapping[str, str]:
    if isinstance(end, JobError):
        return {}
    kernel = {"matmul.kernel": end.kernel} if isinstance(end, Outcome) else {}
    return {"matmul.device": end.device, **kernel}


def _link(claimed: Claimed) -> Link:
    return Link(claimed.job.trace[3:35], span_id(claimed.job.id, claimed.attempt))


def _started_us(claimed: Claimed) -> int:
    started = claimed.job.record.started_at
    return claimed.job.queued_us if started is None else round(started.timestamp() * 1e6)


_current: ContextVar[Launch | None] = ContextVar("launch", default=None)


class Launches:
    """One per process. Safe to share between threads, each of which works on one launch at a time."""

    def __init__(self, tracing: Tracing | None, ledger: Ledger) -> None:
        self._tracing, self._ledger = tracing, ledger

    def under_way(self, claimed: Sequence[Claimed], claim: tuple[int, int]) -> AbstractContextManager[None]:
        """Phases that are reported inside are collected, if spans are exported."""
        return nullcontext() if self._tracing is None else self._collecting(self._tracing, claimed, claim)

    @contextmanager
    def _collecting(self, tracing: Tracing, claimed: Sequence[Claimed], claim: tuple[int, int]) -> Iterator[None]:
        launch = Launch(tracing, self._ledger, claimed, claim)
        tokens = _current.set(launch), phases.current.set(launch.phases)
        try:
            yield
        finally:
            _current.reset(tokens[0])
            phases.current.reset(tokens[1])
            launch.called_off()

    def recording(self) -> None:
        """Called when this thread's launch is computed and its ends are about to be recorded."""
        if (launch := _current.get()) is not None:
            launch.recording()

    def ended(self, claimed: Claimed, end: End) -> None:
        """Called when the end of an attempt of this thread's launch has been recorded."""
        if (launch := _current.get()) is not None:
            launch.ended(claimed, end)

    def handed_back(self, claimed: Claimed, error: JobError) -> None:
        """Called when this process ended an attempt of any launch, and that has been recorded."""
        if self._tracing is not None:
            began = _started_us(claimed) * 1000
            Launch(self._tracing, self._ledger, [claimed], (began, began)).ended(claimed, error)

    def flush(self) -> None:
        """Sends pending spans, before this process ends."""
        if self._tracing is not None:
            self._tracing.flush(FLUSH_S)
