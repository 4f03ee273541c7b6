"""The request that a job came with, as log lines and spans of the job's whole life name it (W3C Trace Context)."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import NamedTuple, Self

_TRACEPARENT = re.compile("00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
SAMPLED = 1  # of the flags: the caller, or who began the trace, keeps it


class RequestTrace(NamedTuple):
    """A request: its place in its caller's trace, and its own id. `traceparent` names the span that a job's spans are
    children of: that of the request where the service exports it, else the caller's."""

    traceparent: str  # of version 00
    request_id: str
    tracestate: str = ""  # of the systems that the trace went through, as it came

    @property
    def trace_id(self) -> str:
        return self.traceparent[3:35]

    @property
    def span_id(self) -> str:
        return self.traceparent[36:52]

    @property
    def flags(self) -> int:
        return int(self.traceparent[53:], 16)

    @property
    def is_sampled(self) -> bool:
        return bool(self.flags & SAMPLED)

    @property
    def log_fields(self) -> dict[str, str]:
        """What every log line says that is about the request or its job."""
        return {"request_id": self.request_id, "trace_id": self.trace_id}

    def __str__(self) -> str:
        """As the ledger keeps it with the job."""
        return f"{self.traceparent} {self.request_id} {self.tracestate}".rstrip()

    @classmethod
    def read(cls, stored: str) -> Self | None:
        """What `str` gave; None for anything else, such as nothing at all."""
        parts = stored.split(" ", 2)
        return cls(*parts) if len(parts) > 1 and _TRACEPARENT.fullmatch(parts[0]) else None


def log_fields(stored: str) -> dict[str, str]:
    """Those of a job, out of what the ledger keeps with it; none where that is nothing."""
    trace = RequestTrace.read(stored)
    return {} if trace is None else trace.log_fields


# Of the request that is being answered. Worker threads that work for it have it too.
current: ContextVar[RequestTrace | None] = ContextVar("request_trace", default=None)


def trace_of_new_job() -> str:
    """What a job that is made now is recorded with; empty outside of a request."""
    trace = current.get()
    return "" if trace is None else str(trace)
