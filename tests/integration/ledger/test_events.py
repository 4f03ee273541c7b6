"""A job's events, on both ledgers; and what is told of its end to who waits for it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from jobs.errors import DeviceFault, InvalidRequest, OperandMissing
from jobs.ledger.codec import event_place, job_error
from jobs.ledger.ends import ends_from_answers
from jobs.ledger.limits import Limits
from jobs.ledger.redis import RedisLedger
from jobs.ledger.replies import recorded
from jobs.models import Progress
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.job_matrices import JobMatrices
from tests.support.ledger.chained import PRODUCT, SMALL, fail, submit, succeed
from tests.support.ledger.ledgers import Bench, new_job, redis_bench

FAULT = job_error(DeviceFault)
MISSING = job_error(OperandMissing)


def test_events_tell_a_jobs_life_in_order(bench: Bench) -> None:
    message = bench.running()
    step = Progress(done=1, total=2, current="n = 256", eta_s=0.5)
    assert bench.ledger.progress(message.job_id, 1, step)
    assert bench.ledger.fail(message.job_id, 1, FAULT, max_attempts=2)
    assert bench.ledger.claim(message.job_id, 2, worker="w", lease_s=6)
    assert bench.ledger.fail(message.job_id, 2, MISSING)
    bench.ledger.redrive(message.job_id)
    bench.ledger.cancel(message.job_id)
    events = bench.ledger.events(message.job_id)
    told = [(event.event, event.data.pop("state"), event.data.pop("attempt")) for event in events]
    assert told == [
        ("queued", "queued", 1),
        ("running", "running", 1),
        ("progress", "running", 1),
        ("queued", "queued", 2),
        ("running", "running", 2),
        ("failed", "failed", 2),
        ("queued", "queued", 3),
        ("cancelled", "cancelled", 3),
    ]
    assert [event.data.pop("version") for event in events] == list(range(1, 9))
    assert bench.ledger.get(message.job_id).version == 8
    fault, missing = {"error": FAULT.model_dump()}, {"error": MISSING.model_dump()}
    assert [event.data for event in events] == [{}, {}, {"progress": step.model_dump()}, fault, {}, missing, {}, {}]
    assert all(event_place(before.id) < event_place(after.id) for before, after in pairwise(events))


def test_events_resume_where_a_reader_left_off(bench: Bench) -> None:
    message = bench.running()
    assert bench.succeed(message)
    events = bench.ledger.events(message.job_id)
    assert bench.ledger.events(message.job_id, limit=2) == events[:2]
    assert bench.ledger.events(message.job_id, after=events[1].id) == events[2:]
    assert bench.ledger.events(message.job_id, after=events[-1].id) == []
    assert bench.ledger.events(message.job_id, after="0") == events
    for wrong in ("", "x", "-1", "1-", "1-2-3", "99999999999999999999-0", "٣-٣"):
        with pytest.raises(InvalidRequest):
            bench.ledger.events(message.job_id, after=wrong)


@pytest.mark.parametrize("name", ["b", "c"])
@pytest.mark.parametrize("first_fails", [False, True])
@pytest.mark.parametrize("matrices", [SMALL, JobMatrices(ttl_s=60)], ids=["in the record", "stored"])
def test_who_waits_for_a_dependent_is_told_what_its_record_says(
    valkey: EmbeddedServer, key_prefix: str, matrices: JobMatrices, first_fails: bool, name: str
) -> None:
    with redis_bench(valkey, f"{key_prefix}told:") as bench:
        assert bench.clock.client is not None
        first = submit(bench, matrices=matrices).job_id
        named: dict[str, Any] = {name: first}
        new = new_job(**named, matrices=matrices).model_copy(update={"reply_to": "me"})
        assert isinstance(bench.ledger, RedisLedger)
        (reply,) = bench.ledger._run("submit", *bench.ledger._submission(new, Limits(9, 9), None))
        first_seen = recorded(reply, new, bench.ledger._bounds)
        with bench.clock.client.pubsub() as heard:  # type: ignore[no-untyped-call]
            heard.subscribe(f"{bench.clock.prefix}answers:me")
            heard.get_message(timeout=60)
            bench.clock.advance(1)
            product = PRODUCT if matrices.product_bytes else None
            if first_fails:
                fail(bench, first)
            else:
                succeed(bench, first, product)
                bench.clock.advance(1)
                succeed(bench, new.id, product)
            message = heard.get_message(timeout=60)
        assert message is not None
        (end,) = ends_from_answers(message["data"])
        kept = bench.ledger.get(new.id, with_product=True)
        told = end.of_row(first_seen.row)
        assert (told.record, told.version, told.packed_product) == (kept.record, kept.version, kept.packed_product)
