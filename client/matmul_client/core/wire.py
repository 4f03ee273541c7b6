"""Requests, replies, and the flows that turn one into the other.

A flow is a generator that does no input or output itself, so `Client` and `AsyncClient` run the same flows. It yields a
`Request` to be sent, a `Pause`, work to `Compute`, or `Concurrent` flows. It is sent the outcome: a `Reply` or a
`NoReply` to a request, None to anything else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Buffer: TypeAlias = bytes | memoryview
LONGEST_S = 86400.0  # of one phase or pause: a socket takes no endless time
LONG_BYTES = 1 << 20  # to work on fewer takes less time than to ask a thread for it
JSON, OCTETS = "application/json", "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. The buffers of `body` are sent one after the other, without a copy of the whole."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: tuple[Buffer, ...] = ()

    @property
    def body_bytes(self) -> int:
        return sum(len(piece) for piece in self.body)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: Buffer


@dataclass(frozen=True, slots=True)
class NoReply:
    """No whole reply came, for a `reason` in words. `may_have_arrived`: the service may have read the request."""

    reason: str
    may_have_arrived: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """The flow continues after this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Compute:
    """Work that takes so much processor time that it should not block an event loop."""

    work: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Concurrent:
    """Flows that run concurrently, all to their end; then the first error is raised."""

    flows: tuple[Callable[[], Flow[None]], ...]


Step: TypeAlias = "Request | Pause | Compute | Concurrent"
Outcome: TypeAlias = Reply | NoReply | None
Flow: TypeAlias = Generator[Step, Outcome, T]


def computed(work: Callable[[], T], size: int) -> Flow[T]:
    """The result of work on so many bytes."""
    if size < LONG_BYTES:
        return work()
    done: list[T] = []
    yield Compute(lambda: done.append(work()))
    return done[0]


@dataclass(slots=True)
class Contact:
    """Whether the service has ever answered this client. If it has, the client retries longer when it is gone."""

    has_answered: bool = False


@dataclass(slots=True)
class Sending:
    """Whether the service has only a part of the latest request: then it has done nothing for it."""

    is_partial: bool = False


@dataclass(slots=True)
class Call:
    """One call by the user: its deadline, its number of retries, and what it has started on the service."""

    timeout_s: float
    max_retries: int
    contact: Contact = field(default_factory=Contact)
    clock: Callable[[], float] = time.monotonic
    owned: list[str] = field(default_factory=list)  # jobs to be cancelled if the call fails
    forget: list[Callable[[], None]] = field(default_factory=list)  # to be called if those are cancelled
    uploads: list[str] = field(default_factory=list)  # targets of uploads in ranges, to be ended if the call fails
    unanswered: Request | None = None  # may have made a job whose id has not come back
    was_cut: bool = False  # of the latest request, a try before its last one may have been carried out
    sending: Sending = field(default_factory=Sending)
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = self.clock() + self.timeout_s

    @property
    def has_started(self) -> bool:
        """Whether something must be cancelled if the call fails."""
        return bool(self.owned or self.uploads or self.may_have_made_a_job)

    @property
    def may_have_made_a_job(self) -> bool:
        """Whether there may be a job whose id has not come back."""
        return self.unanswered is not None and (self.was_cut or not self.sending.is_partial)

    @property
    def remaining_s(self) -> float:
        return self.deadline - self.clock()
