"""Jobs with two operands that are stored for them alone go straight on. test_usual.py leads random lives of them."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

from jobs.ledger.redis import RedisLedger
from jobs.matrices.index import MIN_CHARGE_BYTES
from jobs.models import NewJob, new_id, product_id
from tests.support.ledger.both_ways import OWNER_BYTES, Sides, claimed, ended, stored_job, stored_success, submitted


def _about_matrices(ledger: RedisLedger) -> Any:
    client: Any = ledger._client
    return sorted(key.decode().removeprefix(ledger._prefix) for key in client.keys(f"{ledger._prefix}matri*"))


def _running(sides: Sides, *jobs: NewJob) -> None:
    for job in jobs:
        assert sides.run(partial(submitted, job))[0][0] == b"recorded"
        assert len(sides.run(partial(claimed, job, 1))) == 1


@pytest.mark.parametrize("room_bytes", [0, 300])
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_job_with_stored_matrices_leaves_its_product_alone(sides: Sides, is_turned: bool, room_bytes: int) -> None:
    a, b = new_id("op"), new_id("op")
    job = stored_job(a, b, is_turned=is_turned, room_bytes=room_bytes)
    sides.run(partial(submitted, job))
    (taken,) = sides.run(partial(claimed, job, 1))
    assert (taken.a, taken.b, taken.job.operands_in_record, taken.job.product_in_record) == (None, None, "", False)
    assert [each.matrix for each in taken.job.record.operands] == [a, b]
    assert sides.run(partial(ended, [stored_success(job.id)])) == [b"1"]
    product = f"matrix:{product_id(job.id, 1)}"
    assert sides.run(_about_matrices) == ["matrices:bytes", "matrices:claims", product]
    assert sides.went_straight_on() == {"submit": 1, "claim": 1, "succeed": 1}


def test_they_share_a_launch_and_end_together(sides: Sides) -> None:
    jobs = [stored_job(new_id("op"), new_id("op")) for _ in range(3)]
    for job in jobs:
        sides.run(partial(submitted, job))
    assert [each.job.id for each in sides.run(partial(claimed, jobs[0], 4))] == [job.id for job in jobs]
    assert sides.run(partial(ended, [stored_success(job.id) for job in jobs])) == [b"1"] * 3
    assert sides.went_straight_on() == {"submit": 3, "claim": 1, "succeed": 1}


@pytest.mark.parametrize("count", [1, 2])
def test_an_operand_that_another_job_needs_stays(sides: Sides, count: int) -> None:
    shared = new_id("op")
    jobs = [stored_job(shared, new_id("op")), stored_job(new_id("op"), new_id("op"))]
    _running(sides, *jobs, stored_job(new_id("op"), shared, but=[shared]))
    ends = [stored_success(job.id) for job in jobs][:count]
    assert sides.run(partial(ended, ends)) == [b"5", b"1"][:count]
    assert f"matrix:{shared}" in sides.run(_about_matrices)
    assert sides.went_straight_on() == {"submit": 2, "claim": 2, "succeed": 0}


def test_an_operand_that_another_owner_claims_stays(sides: Sides) -> None:
    shared = new_id("op")
    job = stored_job(shared, new_id("op"))
    _running(sides, job)
    sides.run(lambda ledger: ledger._client.hset(f"{ledger._prefix}matrix:{shared}", "claim:bob", "1:2"))
    assert sides.run(partial(ended, [stored_success(job.id)])) == [b"5"]
    assert f"matrix:{shared}" in sides.run(_about_matrices)


def test_a_product_has_room_beside_its_operands_or_changes_nothing(sides: Sides) -> None:
    """In one step the room that some leave is the others'."""
    jobs = [stored_job(new_id("op"), new_id("op")) for _ in range(OWNER_BYTES // MIN_CHARGE_BYTES // 2)]
    _running(sides, *jobs)
    ends = [stored_success(job.id) for job in jobs]
    assert sides.run(partial(ended, ends[:1])) == [b"1"]
    _running(sides, stored_job(new_id("op"), new_id("op"), room_bytes=0))
    before = sides.went_straight_on()["succeed"]
    assert sides.run(partial(ended, ends[1:2])) == [b"8"]
    assert sides.went_straight_on()["succeed"] == before


def test_versions_before_take_them_the_general_way(sides: Sides) -> None:
    """They know what stays of a job only where it begins with a time alone."""
    job = stored_job(new_id("op"), new_id("op"))
    sides.run(partial(submitted, job))
    kept = sides.run(lambda ledger: ledger._client.hget(f"{ledger._prefix}job:{job.id}", "unchanging"))
    assert re.match(rb"\+\d+ 8192 op_\w+ op_\w+\n600000000\nanonymous\nsmall\n", kept)
    assert not re.match(rb"\d+\n", kept)
