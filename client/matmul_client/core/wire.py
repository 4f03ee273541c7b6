"""Requests, replies, and the flows that turn one into the other.

A flow is a generator. It yields a `Request` to be sent, a `Pause`, work to `Compute` or flows to run `AtOnce`, and is
sent what came of it: a `Reply`, a `Cut` (no whole reply came), or None. So it does no input or output itself; `Client`
and `AsyncClient` run the same flows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Buffer: TypeAlias = bytes | memoryview
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
class Cut:
    """No whole reply came. `may_have_arrived`: the service may have read the request."""

    why: str
    may_have_arrived: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """Time to let pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Compute:
    """Work that takes so much processor time that it should not block an event loop."""

    work: Callable[[], object]


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Flows that run concurrently, all to their end; then the first error is raised."""

    flows: tuple[Callable[[], Flow[None]], ...]


Step: TypeAlias = "Request | Pause | Compute | AtOnce"
Outcome: TypeAlias = Reply | Cut | None
Flow: TypeAlias = Generator[Step, Outcome, T]


@dataclass(slots=True)
class Acquaintance:
    """Whether the service has ever answered this client. If it has, the client retries longer when it is gone."""

    made: bool = False


@dataclass(slots=True)
class Call:
    """One call by the user: its deadline, its number of retries, and what it has started on the service."""

    timeout_s: float
    max_retries: int
    acquaintance: Acquaintance = field(default_factory=Acquaintance)
    clock: Callable[[], float] = time.monotonic
    owned: list[str] = field(default_factory=list)  # jobs that nobody wants if the call does not end well
    unanswered: Request | None = None  # may have made a job whose id has not come back
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = self.clock() + self.timeout_s

    @property
    def remaining_s(self) -> float:
        return self.deadline - self.clock()
