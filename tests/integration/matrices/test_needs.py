"""A job's own claim on its stored operands: from its submission to its end, however long that takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.errors import MatrixNotFound, OperandMissing, StoreFull
from jobs.ledger.acceptance import Acceptance
from jobs.ledger.interface import Success
from jobs.matrices.index import MIN_CHARGE_BYTES
from jobs.models import ANONYMOUS, new_id, product_id
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.job_matrices import StoredOperand
from jobs.requests.operands import OperandRef
from jobs.states import JobState
from tests.integration.matrices.needs import SHAPE, TTL_S, WEEK_S, Needs, needs_in
from tests.support.ledger.both_ways import stored_job
from tests.support.ledger.ledgers import operand_of, outcome


def ref(matrix_id: str) -> OperandRef:
    return OperandRef(source="matrix", matrix=matrix_id, dtype="float32", shape=SHAPE)


@pytest.fixture(params=["file", "redis"])
def needs(request: pytest.FixtureRequest, valkey: EmbeddedServer, key_prefix: str) -> Iterator[Needs]:
    with needs_in(request.param, valkey, key_prefix) as needs:
        yield needs


def test_a_week_in_the_queue_harms_no_operand(needs: Needs) -> None:
    uploaded = needs.upload()
    by_id = needs.submit(ref(uploaded))
    inline, (own,) = needs.submit_inline(8)
    needs.pass_time(WEEK_S)
    assert needs.is_there(uploaded) and needs.is_there(own) and not needs.gone
    for job_id in (by_id, inline):
        assert needs.end(job_id, "succeeded") is Acceptance.ACCEPTED
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


@pytest.mark.parametrize("needs", ["redis"], indirect=True)
def test_elements_in_redis_go_though_the_worker_ends_before_it_removes_them(needs: Needs) -> None:
    """Those of jobs that end in the general way, and straight on, alone and together."""
    inline, own = needs.submit_inline(8, 8)
    assert {needs.lives(each) for each in own} == {"for good"}
    assert needs.end(inline, "succeeded") is Acceptance.ACCEPTED
    assert {needs.lives(each) for each in own} == {"for a time"}
    for count in (1, 2):
        jobs = [stored_job(new_id("op"), new_id("op")) for _ in range(count)]
        own = [operand.id for job in jobs for operand in job.matrices.stored]
        for each in own:
            needs.client.set(needs.chunk(each), b"", px=10**9)
        for job in jobs:
            needs.ledger.submit(job, max_queued=99, max_queued_per_owner=99)
        assert {needs.lives(each) for each in own} == {"for good"}
        assert needs.end_together(*(job.id for job in jobs)) == [Acceptance.ACCEPTED] * count
        assert {needs.lives(each) for each in own} == {"for a time"}


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
    assert needs.end(job_id, "succeeded") is Acceptance.ACCEPTED | Acceptance.SHARED
    done = Success(job_id, 1, outcome())
    assert needs.ledger.succeed_all([done]) == [Acceptance.ACCEPTED | Acceptance.SHARED]  # the first answer was lost
    needs.pass_time(WEEK_S)
    assert not needs.gone
    needs.end(other, "succeeded")
    needs.sweep()
    assert needs.gone == [own] and not needs.left()
    assert needs.ledger.succeed_all([done]) == [Acceptance.ACCEPTED]


def test_a_product_is_needed_from_its_end_by_those_that_wait(needs: Needs) -> None:
    first = needs.submit()
    source = OperandRef(source="job", job=first, dtype="float32", shape=SHAPE)
    uploaded = needs.upload()
    waits, later = needs.submit(source, ref(uploaded)), needs.submit(source, source)
    needs.pass_time(WEEK_S)
    product = needs.upload(name=product_id(first, 1))
    assert needs.end(first, "succeeded") is Acceptance.AWAITED
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
    assert needs.ledger.succeed_all([done, done]) == [Acceptance.ACCEPTED, Acceptance.ACCEPTED]
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
