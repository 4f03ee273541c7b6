"""Spans of a job's life, told once they are over. Their ids follow from the job and the attempt, so that a process can
name the span of another: who takes a job back from a dead worker tells the span that the worker could not, and later
attempts are linked to the first.
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
    """16 hex digits; the same wherever it is asked for."""
    return blake2b(f"{job_id}.{attempt}.{name}".encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Link:
    """Another span that one has to do with, in any trace."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class Span:
    """One that is over. Times are nanoseconds since the epoch."""

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
    """What exports spans; a process that exports none has none of these."""

    def tell(self, trace: RequestTrace, span: Span) -> None:
        """Hands it to the exporter, where the trace is sampled. Neither waits nor raises."""

    def flush(self, timeout_s: float) -> None:
        """Sends what was told, before this process ends. Waits that long at most."""


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
    """The span of its wait before that, by Redis' clock."""
    own = span_id(job_id, attempt, QUEUE)
    return Span(QUEUE, queued_us * 1000, started_us * 1000, id=own, attributes=_about(job_id, attempt))


def _about(job_id: str, attempt: int) -> Mapping[str, str | int]:
    return {"matmul.job.id": job_id, "matmul.job.attempt": attempt}


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """What the ledger knows of an attempt that it took from its worker."""

    trace: str  # as the ledger keeps it with the job
    queued_us: int
    started_us: int
    error_type: str  # why

    def tell(self, tracing: Tracing | None, job_id: str, attempt: int) -> None:
        """Its spans, which its worker cannot tell any more."""
        trace = RequestTrace.read(self.trace)
        if tracing is None or trace is None:
            return
        tracing.tell(trace, queue_span(job_id, attempt, self.queued_us, self.started_us))
        times, error = (self.started_us * 1000, time.time_ns()), (self.error_type, "It was taken back from its worker.")
        tracing.tell(trace, attempt_span(trace, job_id, attempt, times, error=error))
