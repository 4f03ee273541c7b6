"""A job's own claim on its stored operands: from its submission to its end, however long that takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis

from jobs.errors import DeviceFault, MatrixNotFound, OperandMissing, StoreFull
from jobs.ledger.chains import Taken
from jobs.ledger.codec import job_error
from jobs.ledger.interface import Ledger, Success
from jobs.matrices.index import MIN_CHARGE_BYTES, Bounds, Claim, MatrixIndex
from jobs.models import ANONYMOUS, JobMatrices, MatmulRequest, NewJob, OperandRef, StoredOperand, new_id, product_id
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
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

    def end(self, job_id: str, how: str) -> Taken:
        attempt = self.ledger.get(job_id).record.attempt
        if how == "cancelled":
            self.ledger.cancel(job_id)
            return Taken.NO
        assert self.ledger.claim(job_id, attempt, worker="w", lease_s=6)
        if how == "failed":
            self.ledger.fail(job_id, attempt, job_error(DeviceFault))
            return Taken.NO
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

    def end_together(self, *jobs: str) -> list[Taken]:
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


def ref(matrix_id: str) -> OperandRef:
    return OperandRef(source="matrix", matrix=matrix_id, dtype="float32", shape=SHAPE)


@pytest.fixture(params=["file", "redis"])
def needs(request: pytest.FixtureRequest, valkey: EmbeddedServer, key_prefix: str) -> Iterator[Needs]:
    with valkey.client() as client:
        chunk_bytes = 1 << 20 if request.param == "redis" else 0
        ledger = redis_ledger(client, key_prefix, bounds=BOUNDS, clock=CLOCK_LUA)
        index = MatrixIndex(client, key_prefix, BOUNDS, chunk_bytes=chunk_bytes, clock=CLOCK_LUA)
        yield Needs(ledger, index, Clock(AHEAD_US, client, key_prefix), client, key_prefix, chunk_bytes)


def test_a_week_in_the_queue_harms_no_operand(needs: Needs) -> None:
    uploaded = needs.upload()
    by_id = needs.submit(ref(uploaded))
    inline, (own,) = needs.submit_inline(8)
    needs.pass_time(WEEK_S)
    assert needs.is_there(uploaded) and needs.is_there(own) and not needs.gone
    for job_id in (by_id, inline):
        assert needs.end(job_id, "succeeded") is Taken.YES
    assert not needs.is_there(own)  # its elements are for the worker to remove
    needs.pass_time(WEEK_S)
    assert needs.gone == [uploaded] and not needs.left()


def test_what_a_job_needs_is_there_before_the_next_sweep_too(needs: Needs) -> None:
    uploaded = needs.upload()
    job_id = needs.submit(ref(uploaded))
    needs.clock.advance(TTL_S + 1)
    assert needs.is_there(uploaded)
    again = needs.submit(ref(uploaded))
    needs.end(job_id, "succeeded")
    needs.end(again, "succeeded")
    assert not needs.is_there(uploaded)


@pytest.mark.parametrize("needs", ["redis"], indirect=True)
def test_elements_in_redis_have_no_time_to_live_while_a_job_needs_them(needs: Needs) -> None:
    uploaded = needs.upload()
    first, second = needs.submit(ref(uploaded)), needs.submit(ref(uploaded))
    assert needs.lives(uploaded) == "for good"
    needs.index.touch(uploaded, ANONYMOUS, TTL_S)
    needs.upload("bob", uploaded)
    needs.index.touch(uploaded, "bob", TTL_S)
    needs.end(first, "succeeded")
    assert needs.lives(uploaded) == "for good"
    needs.end(second, "failed")
    assert needs.lives(uploaded) == "for a time"


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_operands_are_kept_for_a_retry(needs: Needs, end: str) -> None:
    """For the time to live of products, counted from the end."""
    uploaded = needs.upload()
    by_id, (inline, (own,)) = needs.submit(ref(uploaded)), needs.submit_inline(8)
    needs.pass_time(WEEK_S)
    for job_id in (by_id, inline):
        needs.end(job_id, end)
    needs.pass_time(TTL_S - 1)
    for job_id in (by_id, inline):
        needs.ledger.redrive(job_id)
    needs.pass_time(WEEK_S)
    for job_id in (by_id, inline):
        needs.end(job_id, end)
    needs.pass_time(WEEK_S)
    assert sorted(needs.gone) == sorted([uploaded, own]) and not needs.left()
    for job_id in (by_id, inline):
        with pytest.raises(OperandMissing):
            needs.ledger.redrive(job_id)
        assert needs.ledger.get(job_id).record.state == end
    needs.pass_time(WEEK_S)
    assert not needs.left()


def test_a_matrix_that_is_not_there_is_no_operand(needs: Needs) -> None:
    uploaded = needs.upload("bob")
    for matrix_id in (uploaded, new_id("op")):
        with pytest.raises(OperandMissing) as missing:
            needs.submit(operand_of(None), ref(matrix_id))
        assert missing.value.field == "b"
    assert needs.ledger.counts()[JobState.QUEUED] == 0
    assert needs.index.used_bytes(ANONYMOUS) == 0


def test_a_matrix_that_its_owner_deletes_goes_with_the_last_job_that_needs_it(needs: Needs) -> None:
    uploaded = needs.upload()
    needs.upload("bob", uploaded)
    theirs = needs.submit(ref(uploaded), owner="bob")
    first, second = needs.submit(ref(uploaded), ref(uploaded)), needs.submit(ref(uploaded))
    assert needs.index.release(uploaded, ANONYMOUS) is None
    assert not needs.is_there(uploaded) and needs.is_there(uploaded, "bob")
    with pytest.raises(MatrixNotFound):
        needs.index.release(uploaded, ANONYMOUS)
    charged = needs.index.used_bytes(ANONYMOUS)
    needs.end(first, "failed")
    needs.pass_time(WEEK_S)
    assert needs.index.used_bytes(ANONYMOUS) == charged > 0
    needs.end(second, "succeeded")
    needs.sweep()
    assert needs.index.used_bytes(ANONYMOUS) == 0 and not needs.gone and needs.is_there(uploaded, "bob")
    needs.end(theirs, "succeeded")
    needs.pass_time(WEEK_S)
    assert needs.gone == [uploaded] and not needs.left()


def test_a_deleted_matrix_that_is_stored_again_is_there_again(needs: Needs) -> None:
    uploaded = needs.upload()
    job_id = needs.submit(ref(uploaded))
    needs.index.release(uploaded, ANONYMOUS)
    needs.upload(name=uploaded)
    assert needs.is_there(uploaded)
    needs.end(job_id, "succeeded")
    needs.sweep()
    assert needs.is_there(uploaded) and not needs.gone


def test_an_inline_operand_that_another_job_needs_stays(needs: Needs) -> None:
    job_id, (own,) = needs.submit_inline(8)
    other = needs.submit(ref(own))
    assert needs.end(job_id, "succeeded") is Taken.YES | Taken.SHARED
    done = Success(job_id, 1, outcome())
    assert needs.ledger.succeed_all([done]) == [Taken.YES | Taken.SHARED]  # the first answer was lost
    needs.pass_time(WEEK_S)
    assert not needs.gone
    needs.end(other, "succeeded")
    needs.sweep()
    assert needs.gone == [own] and not needs.left()
    assert needs.ledger.succeed_all([done]) == [Taken.YES]


def test_a_product_is_needed_from_its_end_by_those_that_wait(needs: Needs) -> None:
    first = needs.submit()
    source = OperandRef(source="job", job=first, dtype="float32", shape=SHAPE)
    uploaded = needs.upload()
    waits, later = needs.submit(source, ref(uploaded)), needs.submit(source, source)
    needs.pass_time(WEEK_S)
    product = needs.upload(name=product_id(first, 1))
    assert needs.end(first, "succeeded") is Taken.AWAITED
    needs.pass_time(WEEK_S)
    assert needs.is_there(product) and needs.is_there(uploaded) and not needs.gone
    latest = needs.submit(source)
    needs.end(waits, "succeeded")
    needs.end(later, "cancelled")
    needs.pass_time(WEEK_S)
    assert needs.is_there(product)
    needs.end(latest, "succeeded")
    needs.pass_time(WEEK_S)
    assert sorted(needs.gone) == sorted([product, uploaded]) and not needs.left()


def test_what_a_job_that_is_gone_needed_is_found(needs: Needs) -> None:
    """One that scripts of an older version ended, and one that was removed by hand."""
    uploaded = needs.upload()
    ended, removed, lives = (needs.submit(ref(uploaded)) for _ in range(3))
    needs.client.hset(f"{needs.prefix}job:{ended}", "state", "succeeded")
    needs.client.delete(f"{needs.prefix}job:{removed}")
    needs.pass_time(WEEK_S)
    assert not needs.gone
    needs.client.delete(f"{needs.prefix}job:{lives}")
    needs.pass_time(WEEK_S)
    assert needs.gone == [uploaded] and not needs.left()


def test_a_job_that_is_refused_needs_nothing(needs: Needs) -> None:
    uploaded = needs.upload()
    large = StoredOperand(id=new_id("op"), dtype="float32", shape=(99, 999))
    with pytest.raises(StoreFull):
        needs.submit(ref(uploaded), stored=(large,))
    needs.pass_time(TTL_S + 1)
    assert needs.gone == [uploaded] and not needs.left()


# ---- operands that are stored for one job: its scripts make their claims too ----
def test_their_claims_come_and_go_with_the_job(needs: Needs) -> None:
    job_id, (a, b) = needs.submit_inline(8, 4)
    assert needs.index.used_bytes(None) == needs.index.used_bytes(ANONYMOUS) == 2 * MIN_CHARGE_BYTES
    info = needs.index.find(a, ANONYMOUS)
    assert (info.dtype, info.shape, needs.index.elements(a).bytes) == ("float32", (8, 8), 256)
    assert round(info.expires_at - info.created_at, 3) == TTL_S
    needs.ledger.claim(job_id, 1, worker="w", lease_s=6)
    done = Success(job_id, 1, outcome())
    assert needs.ledger.succeed_all([done, done]) == [Taken.YES, Taken.YES]
    assert needs.index.used_bytes(None) == needs.index.used_bytes(ANONYMOUS) == 0
    assert not needs.is_there(a) and not needs.is_there(b)
    assert needs.index.expire(9) == (0, [])


def test_they_are_within_the_bounds(needs: Needs) -> None:
    for _ in range(2):
        with pytest.raises(StoreFull, match="no room for 30016 more bytes"):
            needs.submit_inline(938)
    assert needs.index.used_bytes(None) == needs.index.used_bytes(ANONYMOUS) == 0
    assert needs.ledger.queues() == []
    needs.submit_inline(937)


def test_jobs_that_end_in_one_step_leave_their_room_to_one_another(needs: Needs) -> None:
    """Three products after six operands: one more than that has room, none of them beside all the operands."""
    jobs, operands = zip(*(needs.submit_inline(8, 8) for _ in range(3)), strict=True)
    needs.upload("bob", operands[1][0])  # another owner's as well
    needs.assert_books_agree()
    assert needs.end_together(*jobs) == [Taken.YES, Taken.YES | Taken.SHARED, Taken.YES]
    needs.assert_books_agree()
    assert needs.index.used_bytes(ANONYMOUS) == 3 * MIN_CHARGE_BYTES
    assert needs.is_there(operands[1][0], "bob") and not needs.is_there(operands[1][0])
    needs.pass_time(WEEK_S)
    assert not needs.left()


def test_products_of_one_step_are_within_the_bounds_together(needs: Needs) -> None:
    jobs = [needs.submit() for _ in range(9)]
    taken = needs.end_together(*jobs)
    assert taken == [Taken.YES] * 7 + [Taken.NO_ROOM] * 2 and needs.index.used_bytes(ANONYMOUS) == 7 * MIN_CHARGE_BYTES
    needs.assert_books_agree()
