"""Spans of a job, exported after they have ended. Their ids are derived from job and attempt, so that one process can
refer to another's span: the process that requeues a dead worker's job exports the span that the worker could not, and
later attempts are linked to the first.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Literal, Protocol

from jobs.tracing.request_trace import RequestTrace

ATTEMPT, LAUNCH, QUEUE = "attempt", "launch", "queue wait"

Kind = Literal["internal", "consumer"]
NOTHING: Mapping[str, str | int | float] = MappingProxyType({})


def span_id(job_id: str, attempt: int, name: str = ATTEMPT) -> str:
    """The id of a span: 16 hex digits, the same in every process."""
    return blake2b(f"{job_id}.{attempt}.{name}".encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a related span, in any trace."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class Span:
    """A finished span. Times are nanoseconds since the epoch."""

    name: str
    start_ns: int
    end_ns: int
    id: str | None = None  # None: any
    parent: str | None = None  # None: the span that the trace's `traceparent` names
    kind: Kind = "internal"
    attributes: Mapping[str, str | int | float] = field(default_factory=dict)
    links: Sequence[Link] = ()
    error: tuple[str, str] | None = None  # type and detail


class Tracing(Protocol):
    """Exports spans. A process that exports none has no instance."""

    def tell(self, trace: RequestTrace, span: Span) -> None:
        """Passes a span to the exporter, if the trace is sampled. Neither waits nor raises."""

    def flush(self, timeout_s: float) -> None:
        """Sends pending spans before this process ends. Waits at most `timeout_s`."""


def attempt_span(
    trace: RequestTrace,
    job_id: str,
    attempt: int,
    times_ns: tuple[int, int],
    *,
    attributes: Mapping[str, str | int | float] = NOTHING,
    links: Sequence[Link] = (),
    error: tuple[str, str] | None = None,
) -> Span:
    """The span of one attempt at a job; a later one is linked to the first."""
    first = (Link(trace.trace_id, span_id(job_id, 1)),) if attempt > 1 else ()
    return Span(
        ATTEMPT,
        *times_ns,
        id=span_id(job_id, attempt),
        kind="consumer",
        attributes={**_about(job_id, attempt), "matmul.request_id": trace.request_id, **attributes},
        links=(*first, *links),
        error=error,
    )


def queue_span(job_id: str, attempt: int, queued_us: int, started_us: int) -> Span:
    """The span of an attempt's wait in the queue, by Redis' clock."""
    own = span_id(job_id, attempt, QUEUE)
    return Span(QUEUE, queued_us * 1000, started_us * 1000, id=own, attributes=_about(job_id, attempt))


def _about(job_id: str, attempt: int) -> Mapping[str, str | int]:
    return {"matmul.job.id": job_id, "matmul.job.attempt": attempt}


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """The ledger's data of an attempt that was taken from its worker."""

    trace: str  # as the ledger keeps it with the job
    queued_us: int
    started_us: int
    error_type: str  # why

    def tell(self, tracing: Tracing | None, job_id: str, attempt: int) -> None:
        """Exports the attempt's spans, because its worker no longer can."""
        trace = RequestTrace.read(self.trace)
        if tracing is None or trace is None:
            return
        tracing.tell(trace, queue_span(job_id, attempt, self.queued_us, self.started_us))
        times, error = (self.started_us * 1000, time.time_ns()), (self.error_type, "It was taken back from its worker.")
        tracing.tell(trace, attempt_span(trace, job_id, attempt, times, error=error))
