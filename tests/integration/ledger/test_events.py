"""A job's events, on both ledgers."""

from __future__ import annotations

from itertools import pairwise

import pytest

from jobs.errors import DeviceFault, InvalidRequest, OperandMissing
from jobs.ledger.codec import event_place, job_error
from jobs.models import Progress
from tests.support.ledger.ledgers import Bench

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
