"""A ledger and the books of a store, for tests of what jobs need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import redis

from jobs.errors import DeviceFault, MatrixNotFound
from jobs.ledger.acceptance import Acceptance
from jobs.ledger.codec import job_error
from jobs.ledger.interface import Ledger, Success
from jobs.matrices.index import MIN_CHARGE_BYTES, Bounds, Claim, MatrixIndex
from jobs.models import ANONYMOUS, MatmulRequest, NewJob, new_id
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.job_matrices import JobMatrices, StoredOperand
from jobs.requests.operands import OperandRef
from tests.support.ledger.ledgers import CLOCK_LUA, Clock, operand_of, outcome, redis_ledger

BOUNDS = Bounds(all_bytes=40_000, owner_bytes=30_000)
TTL_S = 60.0  # of uploads, inline operands and products
WEEK_S = 7 * 86_400
AHEAD_US = 4_000_000_000_000_000  # the clock of the tests: Redis removes at once what should live until a time gone by
SHAPE = (8, 8)


@dataclass
class Needs:
    """A ledger and the books of a store, on one clock. `chunk_bytes`: of a store that keeps elements in Redis."""

    ledger: Ledger
    index: MatrixIndex
    clock: Clock
    client: redis.Redis
    prefix: str
    chunk_bytes: int
    gone: list[str] = field(default_factory=list)

    def upload(self, owner: str = ANONYMOUS, name: str | None = None) -> str:
        matrix_id = name or new_id("op")
        if self.chunk_bytes:
            self.client.set(self.chunk(matrix_id), b"", px=10**9)
        self.index.claim(Claim(matrix_id, matrix_id, "float32", SHAPE, owner, TTL_S))
        return matrix_id

    def chunk(self, matrix_id: str) -> str:
        return f"{self.prefix}chunk:{matrix_id}:0"

    def lives(self, matrix_id: str) -> str:
        """How long the chunk does: `for good`, `for a time`, `no more`."""
        ms: Any = self.client.pttl(self.chunk(matrix_id))
        return {-1: "for good", -2: "no more"}.get(ms, "for a time")

    def submit(self, *operands: OperandRef, stored: tuple[StoredOperand, ...] = (), owner: str = ANONYMOUS) -> str:
        a, b = (*operands, operand_of(None), operand_of(None))[:2]
        request = MatmulRequest(a=a, b=b, accuracy="fp32")
        matrices = JobMatrices(stored=stored, ttl_s=TTL_S)
        new = NewJob(owner=owner, queue="cpu", timeout_s=60.0, request=request, matrices=matrices)
        self.ledger.submit(new, max_queued=99, max_queued_per_owner=99)
        return new.id

    def submit_inline(self, *rows: int) -> tuple[str, list[str]]:
        """The job and its operands, of 8 columns, which the script that records it claims."""
        stored = tuple(StoredOperand(id=new_id("op"), dtype="float32", shape=(each, 8)) for each in rows)
        if self.chunk_bytes:
            for each in stored:
                self.client.set(self.chunk(each.id), b"", px=10**9)
        refs = [OperandRef(source="inline", matrix=each.id, dtype="float32", shape=each.shape) for each in stored]
        return self.submit(*refs, stored=stored), [each.id for each in stored]

    def end(self, job_id: str, how: str) -> Acceptance:
        attempt = self.ledger.get(job_id).record.attempt
        if how == "cancelled":
            self.ledger.cancel(job_id)
            return Acceptance.REFUSED
        assert self.ledger.claim(job_id, attempt, worker="w", lease_s=6)
        if how == "failed":
            self.ledger.fail(job_id, attempt, job_error(DeviceFault))
            return Acceptance.REFUSED
        return self.ledger.succeed_all([Success(job_id, attempt, outcome())])[0]

    def pass_time(self, seconds: float) -> None:
        """With a sweep now and then."""
        for _ in range(3):
            self.clock.advance(seconds / 3)
            self.sweep()

    def sweep(self) -> None:
        self.gone += [elements.data for elements in self.index.expire(100)[1]]

    def is_there(self, matrix_id: str, owner: str = ANONYMOUS) -> bool:
        try:
            self.index.find(matrix_id, owner)
        except MatrixNotFound:
            return False
        return True

    def end_together(self, *jobs: str) -> list[Acceptance]:
        """All in one step, each with a product that it claims in the same."""
        for job_id in jobs:
            assert self.ledger.claim(job_id, 1, worker="w", lease_s=6)
        return list(self.ledger.succeed_all([Success(each, 1, outcome(), claim=(ANONYMOUS, TTL_S)) for each in jobs]))

    def assert_books_agree(self) -> None:
        """What is charged is what the matrices and their claims say."""
        charged: dict[str, int] = {}
        for key in self.client.scan_iter(f"{self.prefix}matrix:*", _type="hash"):
            found: Any = self.client.hgetall(key)
            charge = max(int(found[b"bytes"]), MIN_CHARGE_BYTES)
            owners = [name.decode().partition(":")[2] for name in found if name.startswith(b"claim:")]
            for whose in ("all", *(f"of:{owner}" for owner in owners)):
                charged[whose] = charged.get(whose, 0) + charge
        kept: Any = self.client.hgetall(f"{self.prefix}matrices:bytes")
        assert {name.decode(): int(value) for name, value in kept.items()} == charged

    def left(self) -> list[Any]:
        """All keys about matrices."""
        keys: Any = self.client.keys(f"{self.prefix}matri*")
        return list(keys)


@contextmanager
def needs_in(store: str, server: EmbeddedServer, prefix: str) -> Iterator[Needs]:
    """`store`: `file`, or `redis`, which has chunks."""
    with server.client() as client:
        chunk_bytes = 1 << 20 if store == "redis" else 0
        ledger = redis_ledger(client, prefix, bounds=BOUNDS, clock=CLOCK_LUA)
        index = MatrixIndex(client, prefix, BOUNDS, chunk_bytes=chunk_bytes, clock=CLOCK_LUA)
        yield Needs(ledger, index, Clock(AHEAD_US, client, prefix), client, prefix, chunk_bytes)
