"""Callers on every path, who look at each product. Each caller waits for its answers, so the service sets the pace."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from tests.chaos import products
from tests.chaos.callers import OCTETS, is_passing, job_of
from tests.chaos.network.wire import Reply, Wire, request
from tests.chaos.products import Body

ASYNC = {"Prefer": "respond-async", **OCTETS}
WAIT = {"Prefer": "wait=60", **OCTETS}
ANSWER_TIMEOUT_S = 90.0
AGAIN_S = 0.1
GIVE_UP_S = 60.0
# Of a hundred conversations; most are small products that are waited for.
SHARES = {
    "inline": 80,
    "in record": 6,
    "stored": 3,
    "polled": 4,
    "chained": 2,
    "uploaded": 2,
    "cancelled": 2,
    "deleted": 1,
}
_TABLE = [path for path, share in SHARES.items() for _ in range(share)]
_STEP = 37  # prime to 100, so that paths alternate


def path_of(number: int) -> str:
    return _TABLE[number * _STEP % 100]


@dataclass
class Tally:
    """What callers did and met. `jobs`: accepted ones. `wrong`: products that were not theirs, and answers that no one
    should get."""

    jobs: int = 0
    conversations: Counter[str] = field(default_factory=Counter)
    busy: int = 0  # answers that said to try again
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.jobs, self.busy = self.jobs + other.jobs, self.busy + other.busy
        self.conversations.update(other.conversations)
        self.wrong += other.wrong


class Caller:
    """One thread's. `keys`: of the API, in turn."""

    def __init__(self, port: int, keys: Sequence[str], name: str) -> None:
        self._wire, self._keys, self._name = Wire(port), keys, name
        self._key = keys[0]
        self.tally = Tally()

    def run(self, numbers: Callable[[], int | None]) -> None:
        """Until there is no further number, or something is wrong."""
        while not self.tally.wrong and (number := numbers()) is not None:
            self._key = self._keys[number % len(self._keys)]
            path = path_of(number)
            try:
                self._talk(number, path)
            except OSError as error:
                self.tally.wrong.append(f"{number} ({path}): {error!r}")
            self.tally.conversations[path] += 1
        self._wire.close()

    def _talk(self, number: int, path: str) -> None:
        match path:
            case "in record":
                self._multiply(number, products.binary(number, products.SIDES["in record"]))
            case "stored":
                self._multiply(number, products.binary(number, products.SIDES["stored"]))
            case "deleted":
                job = self._multiply(number, products.binary(number, products.SIDES["stored"]))
                self._ask("DELETE", f"/v1/jobs/{job}", expected=(204,))
            case "polled":
                self._poll(number, products.inline(number))
            case "chained":
                first = self._submit(number, products.inline(number))
                self._multiply(number, products.chained(number, number, first))
            case "uploaded":
                headers, content = products.matrix(number)
                matrix = self._ask("POST", "/v1/matrices", headers, content, expected=(200, 201)).json()["id"]
                self._multiply(number, products.uploaded(number, matrix))
                self._ask("DELETE", f"/v1/matrices/{matrix}", expected=(204,))
            case "cancelled":
                job = self._submit(number, products.inline(number))
                self._ask("POST", f"/v1/jobs/{job}/cancel", expected=(200, 202, 409))
            case _:
                self._multiply(number, products.inline(number))

    def _multiply(self, number: int, body: Body) -> str:
        """Waits for the product; the job."""
        reply = self._ask("POST", body.target, {**body.headers, **WAIT}, body.content, expected=(200,))
        self.tally.jobs += 1
        self._compare(number, reply, body)
        return job_of(reply)

    def _submit(self, number: int, body: Body) -> str:
        headers = {**body.headers, **ASYNC, "Idempotency-Key": f"{self._name} {number}"}
        reply = self._ask("POST", body.target, headers, body.content, expected=(200, 202))
        self.tally.jobs += 1
        return job_of(reply)

    def _poll(self, number: int, body: Body) -> None:
        """As a program that comes back later."""
        job = self._submit(number, body)
        state = "queued"
        while state in ("queued", "running"):
            state = self._ask("GET", f"/v1/jobs/{job}", {"Prefer": "wait=30"}, expected=(200,)).json()["state"]
        self._compare(number, self._ask("GET", f"/v1/jobs/{job}/product", OCTETS, expected=(200,)), body)

    def _compare(self, number: int, reply: Reply, body: Body) -> None:
        if reply.body != body.product:
            self.tally.wrong.append(f"{number}: a product of {len(reply.body)} bytes was not its own")

    def _ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        *,
        expected: tuple[int, ...],
    ) -> Reply:
        """Again where the answer says so. Raises OSError for any other answer, and where there is none."""
        sent = request(method, target, self._key, headers, content)
        until = time.monotonic() + GIVE_UP_S
        while True:
            reply = self._wire.ask(sent, ANSWER_TIMEOUT_S)
            if reply.status in expected:
                return reply
            if not is_passing(reply) or time.monotonic() > until:
                raise OSError(f"{method} {target}: {reply.status} {reply.body[:300].decode(errors='replace')}")
            self.tally.busy += 1
            time.sleep(AGAIN_S)


@dataclass(frozen=True, slots=True)
class Share:
    """What one process of callers does: conversations with numbers `first`, `first + step`, …; none begins past `until`
    (monotonic, which on Linux is one clock for all processes)."""

    port: int
    keys: Sequence[str]
    first: int
    step: int
    conversations: int
    threads: int
    until: float


def talk(share: Share, when_begun: Callable[[], object] = lambda: None) -> Tally:
    """By several threads. `when_begun` is called for each conversation."""
    lock, numbers, total = threading.Lock(), count(), Tally()

    def next_number() -> int | None:
        with lock:
            index = next(numbers)
            if index >= share.conversations or time.monotonic() > share.until:
                return None
            when_begun()
        return share.first + share.step * index

    callers = [Caller(share.port, share.keys, f"soak {share.first} {i}") for i in range(share.threads)]
    running = [threading.Thread(target=caller.run, args=(next_number,)) for caller in callers]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for caller in callers:
        total.add(caller.tally)
    return total
