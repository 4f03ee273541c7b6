"""Callers who never give up: each job is submitted under an Idempotency-Key until it is accepted, on its own path."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.chaos import products
from tests.chaos.layout import USUAL, Layout
from tests.chaos.network.wire import TIMEOUT_S, Reply, Wire, request
from tests.chaos.products import Body, Path
from tests.chaos.verdict.margins import Margins

ASYNC = {"Prefer": "respond-async"}
WAIT = {"Prefer": "wait=3", "Accept": "application/octet-stream"}
OCTETS = {"Accept": "application/octet-stream"}
AGAIN_S = 0.15
GIVE_UP_S = 120.0
POLL_S = 0.02
SENT_BYTES = 1e6  # a second, on a busy machine: who gives up sooner only sends it all again
# Problems that a client is told to try again after.
PASSING = {"idempotency_key_in_use", "no_worker_for_kernel", "no_worker_for_device", "request_timeout"}


@dataclass(slots=True)
class Accepted:
    """A job that the service said it has, and to which key. `ends`: the states that it may end in."""

    number: int
    path: Path
    job: str
    product: bytes | None
    key: str
    ends: frozenset[str] = frozenset({"succeeded"})
    is_deleted: bool = False


@dataclass
class Told:
    """What the callers of a run were told. For many threads: each adds under a number of its own."""

    accepted: dict[int, Accepted] = field(default_factory=dict)
    unexpected: list[str] = field(default_factory=list)  # answers that no fault excuses
    wrong: list[str] = field(default_factory=list)  # products that were not theirs
    busy: int = 0  # answers that said to try again
    margins: Margins = field(default_factory=Margins)


class Refused(Exception):
    """An answer that trying again does not change."""


class Caller:
    """One thread's, with an API key. `doors`: the ports of the APIs; `headers`: of each request."""

    def __init__(
        self,
        index: int,
        doors: tuple[int, ...],
        key: str,
        told: Told,
        seed: int,
        layout: Layout = USUAL,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._wires = [Wire(doors[(index + i) % len(doors)]) for i in range(len(doors))]
        self._key, self._told, self._seed, self._layout = key, told, seed, layout
        self._shares, self._headers = products.shares_of(layout), headers or {}
        self._rng = random.Random(f"{seed} caller {index}")
        self._last: tuple[int, str] | None = None  # an inline job, for the next chain

    def run(self, numbers: Callable[[], int | None]) -> None:
        """Until there is no further number."""
        while (number := numbers()) is not None:
            try:
                self._submit(number)
            except Refused as refusal:
                self._told.unexpected.append(f"{number} ({products.path_of(number, self._shares)}): {refusal}")
        self.close()

    def close(self) -> None:
        """Its connections; they are opened again as they are needed."""
        for wire in self._wires:
            wire.close()

    def _submit(self, number: int) -> None:
        path = products.path_of(number, self._shares)
        match path:
            case "in record" | "stored":
                self._accept(number, path, products.binary(number, products.SIDES[path]))
            case "uploaded":
                headers, content = products.matrix(number)
                reply = self.answered("POST", "/v1/matrices", headers, content)
                self._accept(number, path, products.uploaded(number, reply.json()["id"]))
            case "chained" if self._last is not None:
                self._accept(number, path, products.chained(number, *self._last))
            case "parted":
                self._accept(number, path, products.parted(number))
            case "tiled":
                self._accept(number, path, products.tiled(number, self._layout.tiling_kernel))
            case "heavy":
                self._accept(number, path, products.heavy(number))
            case "benchmark":
                self._accept(number, path, products.benchmark(number))
            case "waited for":
                self._wait_for(number, path, products.inline(number))
            case "large":
                self._read_and_delete(number, products.binary(number, products.SIDES[path]))
            case "cancelled" | "redriven":
                self._cancel(number, path)
            case _:
                accepted = self._accept(number, path, products.inline(number), thrice=path == "sent thrice")
                self._last = number, accepted.job

    def _accept(self, number: int, path: Path, body: Body, *, thrice: bool = False) -> Accepted:
        headers = {**body.headers, **ASYNC, "Idempotency-Key": f"{self._seed}-{number}"}
        if thrice:
            sent = request("POST", body.target, self._key, {**headers, **self._headers}, body.content)
            self._wires[0].abandon(sent, 0)
            self._wires[-1].abandon(sent, 1)
        reply = self.answered("POST", body.target, headers, body.content)
        return self._keep(Accepted(number, path, job_of(reply), body.product, self._key))

    def _keep(self, accepted: Accepted) -> Accepted:
        self._told.accepted[accepted.number] = accepted
        return accepted

    def _wait_for(self, number: int, path: Path, body: Body) -> Accepted:
        """The product comes with the reply where it is done in time."""
        headers = {**body.headers, **WAIT, "Idempotency-Key": f"{self._seed}-{number}"}
        reply = self.answered("POST", body.target, headers, body.content)
        if reply.status == 200 and reply.body != body.product:
            self._told.wrong.append(f"{number}: the reply had another product than {job_of(reply)}")
        return self._keep(Accepted(number, path, job_of(reply), body.product, self._key))

    def _read_and_delete(self, number: int, body: Body) -> None:
        """A product in the store is read and, where it was there, forgotten; its memory is another's a moment later."""
        accepted = self._wait_for(number, "large", body)
        reply = self.answered("GET", f"/v1/jobs/{accepted.job}/product", OCTETS, until=(200, 409))
        if reply.status == 200:
            if reply.body != body.product:
                self._told.wrong.append(f"{number}: {accepted.job}")
            accepted.is_deleted = True
            reply = self.answered("DELETE", f"/v1/jobs/{accepted.job}", until=(204, 404, 409))
            accepted.is_deleted = reply.status != 409  # where a crash of Redis took its end back, it runs again

    def _cancel(self, number: int, path: Path) -> None:
        accepted = self._accept(number, path, products.inline(number))
        accepted.ends = frozenset({"succeeded", "cancelled"})
        reply = self.answered("POST", f"/v1/jobs/{accepted.job}/cancel", until=(200, 202, 409))
        if reply.status == 409:
            accepted.ends = frozenset({"succeeded"})
        elif path == "redriven":
            headers = {"Idempotency-Key": f"{self._seed}-again-{number}"}
            self.answered("POST", f"/v1/jobs/{accepted.job}/retry", headers)
            accepted.ends = frozenset({"succeeded"})
        else:
            accepted.ends = frozenset({"cancelled"})

    def answered(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        *,
        until: tuple[int, ...] = (200, 201, 202),
        key: str = "",
    ) -> Reply:
        """Asks one API or the other until one says more than to try again. Raises Refused."""
        sent = request(method, target, key or self._key, {**(headers or {}), **self._headers}, content)
        began = time.monotonic()
        last = "nothing"
        while time.monotonic() < began + GIVE_UP_S:
            try:
                reply = self._wires[0].ask(sent, TIMEOUT_S + len(sent) / SENT_BYTES)
                if reply.status in until:
                    self._told.margins.note("wait for an answer, s", time.monotonic() - began, GIVE_UP_S)
                    return reply
                last = f"{reply.status} {reply.body[:300].decode(errors='replace')}"
                if not is_passing(reply):
                    raise Refused(last)
                self._told.busy += 1
            except OSError:
                pass
            self._wires.reverse()
            time.sleep(AGAIN_S * self._rng.uniform(0.5, 1.5))
        raise Refused(f"no answer for {GIVE_UP_S:.0f} s, at last {last}")


def is_passing(reply: Reply) -> bool:
    if reply.status in (429, 503):
        return reply.header("retry-after") != ""
    return reply.status in (408, 409) and reply.json()["type"].rpartition("/")[2] in PASSING


def job_of(reply: Reply) -> str:
    return reply.header("location").rpartition("/")[2] or reply.json()["job"]["id"]


class Gate:
    """Hands out job numbers no faster than faults come. For many threads."""

    def __init__(self, jobs: int, faults: int, lead: int = 2) -> None:
        self._jobs, self._per_fault, self._lead = jobs, jobs / max(faults, 1), lead
        self._next = 0
        self._faults = 0
        self._is_ended = False
        self._changed = threading.Condition()

    def fault_began(self) -> None:
        with self._changed:
            self._faults += 1
            self._changed.notify_all()

    def end(self) -> None:
        """No more numbers."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def number(self) -> int | None:
        """The next; none once all are given."""
        with self._changed:
            while self._next >= (self._faults + self._lead) * self._per_fault and not self._is_ended:
                self._changed.wait()
            if self._next >= self._jobs or self._is_ended:
                return None
            self._next += 1
            return self._next - 1

    def wait_for_fault(self, index: int, deadline: float) -> bool:
        """Until the jobs that go before that fault are given out; False past the deadline (monotonic)."""
        while self._next < min(index * self._per_fault, self._jobs) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return time.monotonic() < deadline
