"""The request that submitted a job, as log lines and spans refer to it throughout the job's life (W3C Trace
Context).
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import NamedTuple, Self

_TRACEPARENT = re.compile("00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
SAMPLED = 1  # flag: the caller, or whoever began the trace, records it


class RequestTrace(NamedTuple):
    """A request: its place in its caller's trace, and its own id. `traceparent` names the parent of the job's spans:
    the request's span if the service exports it, otherwise the caller's.
    """

    traceparent: str  # of version 00
    request_id: str
    tracestate: str = ""  # vendor data of the systems that the trace passed through, unchanged

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
        """The fields of every log line about the request or its job."""
        return {"request_id": self.request_id, "trace_id": self.trace_id}

    def __str__(self) -> str:
        """The text that the ledger stores with the job."""
        return f"{self.traceparent} {self.request_id} {self.tracestate}".rstrip()

    @classmethod
    def read(cls, stored: str) -> Self | None:
        """Parses the result of `str`; None for anything else, such as an empty string."""
        parts = stored.split(" ", 2)
        return cls(*parts) if len(parts) > 1 and _TRACEPARENT.fullmatch(parts[0]) else None


def log_fields(stored: str) -> dict[str, str]:
    """The log fields of a job, from the text that the ledger stores; empty if there is none."""
    trace = RequestTrace.read(stored)
    return {} if trace is None else trace.log_fields


# The trace of the current request. Threads that work for it have it too.
current: ContextVar[RequestTrace | None] = ContextVar("request_trace", default=None)


def trace_of_new_job() -> str:
    """The trace text for a job submitted now; empty outside of a request."""
    trace = current.get()
    return "" if trace is None else str(trace)
