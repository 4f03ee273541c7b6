"""Jobs of two matrices that were uploaded before go straight on. test_usual.py leads random lives of them."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

from jobs.ledger.interface import Success
from jobs.ledger.redis import RedisLedger
from jobs.matrices.index import MIN_CHARGE_BYTES
from jobs.models import ANONYMOUS, NewJob, new_id
from tests.integration.matrices.needs import AHEAD_US
from tests.support.ledger.both_ways import (
    OWNER_BYTES,
    UPLOAD_S,
    Sides,
    books_of,
    claimed,
    ended,
    referring_job,
    stored_success,
    submitted,
    submitted_together,
    uploaded,
)
from tests.support.ledger.ledgers import START_US, outcome

STRAIGHT_ON = {"submit": 1, "claim": 1, "succeed": 1}


def _uploaded(sides: Sides, count: int = 2) -> list[str]:
    ids = [new_id("m") for _ in range(count)]
    sides.run(partial(uploaded, ids, ANONYMOUS))
    return ids


def _recorded(sides: Sides, *jobs: NewJob) -> None:
    assert [each[0] for each in sides.run(partial(submitted_together, jobs))] == [b"recorded"] * len(jobs)


def _needing(ids: list[str], ledger: RedisLedger) -> Any:
    client: Any = ledger._client
    return [client.zrange(f"{ledger._prefix}matrix:{each}:needed", 0, -1) for each in ids]


def _given_up(matrix: str, ledger: RedisLedger) -> bool:
    return books_of(ledger).release(matrix, ANONYMOUS) is not None


def test_one_alone(sides: Sides) -> None:
    a, b = ids = _uploaded(sides)
    job = referring_job(a, b)
    _recorded(sides, job)
    assert sides.run(partial(_needing, ids)) == [[f"{ANONYMOUS} {job.id}".encode()]] * 2
    (taken,) = sides.run(partial(claimed, job, 1))
    assert (taken.a, taken.b, taken.job.operands_in_record, taken.job.product_in_record) == (None, None, "", False)
    assert [each.matrix for each in taken.job.record.operands] == [a, b]
    assert sides.run(partial(ended, [stored_success(job.id)])) == [b"1"]
    assert sides.run(partial(_needing, ids)) == [[], []]
    assert sides.run(lambda ledger: books_of(ledger).used_bytes(ANONYMOUS)) == str(3 * MIN_CHARGE_BYTES).encode()
    assert sides.went_straight_on() == STRAIGHT_ON


def test_one_whose_product_is_in_its_record(sides: Sides) -> None:
    a, b = _uploaded(sides)
    job = referring_job(a, b, product_bytes=90)
    _recorded(sides, job)
    (taken,) = sides.run(partial(claimed, job, 1))
    assert (taken.a, taken.b, taken.job.operands_in_record, taken.job.product_in_record) == (None, None, "", True)
    assert sides.run(partial(ended, [Success(job.id, 1, outcome(), b"p" * 80)])) == [b"1"]
    packed = sides.run(lambda ledger: ledger.get(job.id, with_product=True).packed_product)
    assert packed == b"p" * 80
    assert sides.went_straight_on() == STRAIGHT_ON


@pytest.mark.parametrize("product_bytes", [0, 90])
def test_several_are_recorded_claimed_and_ended_together(sides: Sides, product_bytes: int) -> None:
    a, b, c = _uploaded(sides, 3)
    pairs = [(a, b), (a, b), (c, b), (b, b), (a, b)]
    jobs = [referring_job(*pair, product_bytes=product_bytes, room_bytes=300) for pair in pairs]
    _recorded(sides, *jobs)
    assert [each.job.id for each in sides.run(partial(claimed, jobs[0], 1, light=4))] == [job.id for job in jobs[:4]]
    product = b"p" * 80
    ends = [Success(job.id, 1, outcome(), product) if product_bytes else stored_success(job.id) for job in jobs[:4]]
    assert sides.run(partial(ended, ends)) == [b"1"] * 4
    assert sides.run(partial(_needing, [a, b, c])) == [[f"{ANONYMOUS} {jobs[4].id}".encode()]] * 2 + [[]]
    assert sides.went_straight_on() == STRAIGHT_ON


def test_only_so_many_are_under_way_beside_one_another(sides: Sides) -> None:
    """Two, and of light ones none: up to the first that is one too many."""
    a, b = _uploaded(sides)
    jobs = [referring_job(a, b) for _ in range(4)]
    _recorded(sides, *jobs)
    assert [each.job.id for each in sides.run(partial(claimed, jobs[0], 1))] == [job.id for job in jobs[:2]]
    assert sides.went_straight_on()["claim"] == 1


@pytest.mark.parametrize("count", [1, 3])
def test_the_operand_that_is_missing_is_named(sides: Sides, count: int) -> None:
    a, b = _uploaded(sides)
    jobs = [referring_job(a, b if i < count - 1 else new_id("m")) for i in range(count)]
    replies = sides.run(partial(submitted_together, jobs))
    assert [each[0] for each in replies] == [b"recorded"] * (count - 1) + [b"operand_missing"]
    assert replies[-1] == [b"operand_missing", b"b"]
    assert sides.went_straight_on()["submit"] == 0


@pytest.mark.parametrize("count", [1, 2])
def test_matrices_are_kept_for_their_full_time_again(sides: Sides, count: int) -> None:
    a, b = ids = _uploaded(sides)
    sides.advance(UPLOAD_S / 2)
    jobs = [referring_job(a, b) for _ in range(count)]
    _recorded(sides, *jobs)

    def lives_until(ledger: RedisLedger) -> list[float]:
        return [books_of(ledger).find(each, ANONYMOUS).expires_at - START_US / 1e6 for each in ids]

    assert sides.run(lives_until) == [UPLOAD_S / 2 + job.matrices.used_ttl_s for job in (jobs * 2)[:2]]
    assert sides.went_straight_on()["submit"] == 1


@pytest.mark.parametrize("count", [1, 2])
def test_a_matrix_that_was_given_up_goes_with_the_last_job_that_needs_it(sides: Sides, count: int) -> None:
    a, b = _uploaded(sides)
    jobs = [referring_job(a, b) for _ in range(count)]
    _recorded(sides, *jobs)
    sides.run(partial(claimed, jobs[0], 1))
    sides.run(partial(_given_up, a))
    assert sides.run(partial(submitted, referring_job(a, b))) == [[b"operand_missing", b"a"]]
    assert sides.run(partial(ended, [stored_success(job.id) for job in jobs])) == [b"1"] * count
    assert sides.run(lambda ledger: [each.data for each in books_of(ledger).expire(9)[1]]) == [a]
    assert sides.went_straight_on() == STRAIGHT_ON | {"succeed": 0}


@pytest.mark.parametrize("count", [1, 2])
def test_a_product_has_room_beside_what_is_kept_or_is_refused(sides: Sides, count: int) -> None:
    a, b = _uploaded(sides)
    left = OWNER_BYTES - 2 * MIN_CHARGE_BYTES
    fits, too_large = ([referring_job(a, b, room_bytes=room) for _ in range(count)] for room in (left, left + 1))
    _recorded(sides, *fits)
    replies = sides.run(partial(submitted_together, too_large))
    assert replies == [[b"owner_full", str(left + 1).encode(), str(2 * MIN_CHARGE_BYTES).encode()]] * count
    assert sides.went_straight_on()["submit"] == 1


@pytest.mark.parametrize("count", [1, 2])
def test_chunks_live_while_jobs_need_them(sides: Sides, count: int) -> None:
    sides.advance((AHEAD_US - START_US) / 1e6)
    a, b = ids = _uploaded(sides)

    def lives(ledger: RedisLedger) -> list[str]:
        of = [ledger._client.pttl(f"{ledger._prefix}chunk:{each}:{i}") for each in ids for i in range(2)]
        return ["for good" if each == -1 else "for a time" if each > 0 else "no more" for each in of]

    def stored(ledger: RedisLedger) -> None:
        for each in (a, b):
            for i in range(2):
                ledger._client.set(f"{ledger._prefix}chunk:{each}:{i}", b"", px=10**9)

    sides.run(stored)
    jobs = [referring_job(a, b) for _ in range(count)]
    _recorded(sides, *jobs)
    assert sides.run(lives) == ["for good"] * 4
    sides.run(partial(claimed, jobs[0], 1))
    assert sides.run(partial(ended, [stored_success(job.id) for job in jobs])) == [b"1"] * count
    assert sides.run(lives) == ["for a time"] * 4
    assert sides.went_straight_on() == STRAIGHT_ON


def test_an_owner_with_a_key_is_recorded_and_ended_straight_on(sides: Sides) -> None:
    ids = [new_id("m"), new_id("m")]
    sides.run(partial(uploaded, ids, "alice"))
    job = referring_job(ids[0], ids[1], owner="alice")
    _recorded(sides, job)
    assert len(sides.run(partial(claimed, job, 1))) == 1
    assert sides.run(partial(ended, [stored_success(job.id, owner="alice")])) == [b"1"]
    assert sides.went_straight_on() == {"submit": 1, "claim": 0, "succeed": 1}


def test_versions_before_take_them_the_general_way(sides: Sides) -> None:
    """They know what stays of a job only where it begins with a time, or with a plus."""
    a, b = _uploaded(sides)
    job = referring_job(a, b)
    _recorded(sides, job)
    kept = sides.run(lambda ledger: ledger._client.hget(f"{ledger._prefix}job:{job.id}", "unchanging"))
    assert re.match(rf"&\d+ {a} {b}\n600000000\nanonymous\nbeside\n".encode(), kept)
    assert not re.match(rb"\+?\d+", kept)
