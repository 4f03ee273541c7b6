"""Rows that another version recorded, or that are damaged: they are shown as far as they can be, stop nothing else, and
a worker that does not understand one gives it back without using up an attempt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from structlog.testing import capture_logs

from jobs.errors import WorkerLost
from jobs.fleet.registry import WorkerRegistry
from jobs.fleet.workers import DeviceInfo, WorkerInfo
from jobs.ledger.codec import job_error
from jobs.ledger.interface import JobFilter
from jobs.ledger.redis import RedisLedger
from jobs.models import MatmulRequest
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.job_matrices import JobMatrices
from jobs.states import JobState
from jobs.stored import NotUnderstood, RecordUnreadable
from service.submit.replies import record_json
from tests.support.ledger.ledgers import Bench, assert_books_agree, new_job, outcome, redis_bench
from tests.support.ledger.other_versions import CHANGES, Change, Rows, added_field, unknown_kernel

LONG_S = 600.0


@pytest.fixture
def bench(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Bench]:
    with redis_bench(valkey, key_prefix) as bench:
        yield bench


def rows_of(bench: Bench) -> Rows:
    assert bench.clock.client is not None
    return Rows(bench.clock.client, bench.clock.prefix)


def ledger_of(bench: Bench) -> RedisLedger:
    assert isinstance(bench.ledger, RedisLedger)
    return bench.ledger


def listed(bench: Bench, where: JobFilter | None = None) -> list[str]:
    return [job.id for job in bench.ledger.list(where or JobFilter(), limit=10).jobs]


def attempt_of(bench: Bench, job_id: str) -> tuple[str, int]:
    record = bench.ledger.get(job_id).record
    return record.state.value, record.attempt


# ---- shown ----
@pytest.mark.parametrize("change", CHANGES)
def test_a_request_of_another_version_is_shown_as_far_as_it_is_known(bench: Bench, change: Change) -> None:
    rows, good, other = rows_of(bench), bench.submit().job_id, bench.submit().job_id
    rows.change(other, "request", change)
    shown = bench.ledger.get(other).record
    assert shown.state is JobState.QUEUED and shown.queue_position == 2
    assert listed(bench) == [other, good]
    assert json.loads(record_json(shown))["request"]["accuracy"]  # what both know is there
    assert bench.ledger.counts()[JobState.QUEUED] == 2


def test_names_that_are_not_known_stay_as_they_are(bench: Bench) -> None:
    rows, other = rows_of(bench), bench.submit().job_id
    rows.change(other, "request", unknown_kernel)
    request = bench.ledger.get(other).record.request
    assert isinstance(request, MatmulRequest) and request.kernel == "gone_kernel" and request.a.shape == (8, 8)


@pytest.mark.parametrize("part", ["request", "progress", "outcome", "error"])
@pytest.mark.parametrize("text", ["", "{", "[]", '"text"', "\xff", '{"product":{"dtype":"float6"}}'])
def test_damaged_json_takes_nothing_else_along(bench: Bench, part: str, text: str) -> None:
    rows, done = rows_of(bench), bench.running()
    assert bench.succeed(done)
    failed = bench.running()
    bench.ledger.fail(failed.job_id, 1, job_error(WorkerLost))
    for job_id in (done.job_id, failed.job_id):
        rows.set(job_id, part, text)
    assert listed(bench) == [failed.job_id, done.job_id]
    record = bench.ledger.get(failed.job_id).record
    assert record.error and record.error.detail
    record = bench.ledger.get(done.job_id).record
    assert record.state is JobState.SUCCEEDED and record.model_dump_json()
    assert bench.ledger.redrive(failed.job_id)[0].record.attempt == 2
    bench.clock.advance(9)
    assert [job.id for job in bench.ledger.expire(job_ttl_s=8)] == [done.job_id]
    assert_books_agree(rows.client, rows.prefix)


def test_an_outcome_without_a_field_shows_the_others(bench: Bench) -> None:
    rows, message = rows_of(bench), bench.running()
    assert bench.succeed(message)
    rows.change(message.job_id, "outcome", lambda outcome: outcome.pop("why"))
    rows.change(message.job_id, "outcome", lambda outcome: outcome.update(heat=3, device=["two"]))
    record = bench.ledger.get(message.job_id).record
    assert (record.why, record.device, record.kernel) == (None, None, "cpu_blas")
    assert record.product and record.timing and record.verification


def test_what_a_version_does_not_know_stays_in_the_row(bench: Bench) -> None:
    rows, message = rows_of(bench), bench.submit()
    rows.change(message.job_id, "request", added_field)
    rows.set(message.job_id, "colour", "red")
    before = rows.get(message.job_id, "request")
    bench.ledger.cancel(message.job_id)
    bench.ledger.redrive(message.job_id)
    assert rows.get(message.job_id, "request") == before and rows.get(message.job_id, "colour") == "red"


def test_a_row_that_is_not_even_a_job_is_left_out_of_its_page(bench: Bench) -> None:
    rows, good, other, gone = rows_of(bench), *(bench.submit().job_id for _ in range(3))
    rows.set(other, "state", "paused")
    rows.client.delete(rows.key(gone))
    with capture_logs() as logs:
        assert listed(bench) == [good]
        assert listed(bench, JobFilter(q="gpu")) == []
    assert [line["event"] for line in logs] == ["a job cannot be read"]
    with pytest.raises(RecordUnreadable):
        bench.ledger.get(other)
    assert bench.ledger.counts()[JobState.QUEUED] == 3


# ---- the sweep ----
def test_entries_of_jobs_that_are_gone_end_no_sweep(bench: Bench) -> None:
    rows, ledger = rows_of(bench), bench.ledger
    silent, done = bench.running(lease_s=1), bench.running()
    assert bench.succeed(done)
    for index in ("leases", "finished", "packed", "queued:cpu", "jobs:all:anonymous"):
        rows.client.zadd(f"{rows.prefix}{index}", {"job_ghost": 0})
    bench.clock.advance(2)
    assert ledger.depths(["cpu"])["cpu"].waiting == 1
    assert ledger.expired_leases() == [("job_ghost", 0), (silent.job_id, 1)]
    assert [bool(ledger.take_back(*each, max_attempts=3)) for each in ledger.expired_leases()] == [False, True]
    assert ledger.expired_leases() == []
    lost = ledger.lost_messages("cpu", broker_is_empty=True, grace_s=0)
    assert lost == []  # the ghost's is none, and the other was sent just now
    assert [job.id for job in ledger.expire(job_ttl_s=1)] == [done.job_id]
    assert ledger.expire_matrices() == 1 and ledger.expire_matrices() == 0


@pytest.mark.parametrize("change", CHANGES)
def test_a_silent_workers_job_comes_back_whatever_it_asks_for(bench: Bench, change: Change) -> None:
    """The change needs no reading of the request: its message is known when it is made."""
    rows, message = rows_of(bench), bench.running(lease_s=1)
    rows.change(message.job_id, "request", change)
    bench.clock.advance(2)
    taken = bench.ledger.take_back(message.job_id, 1, max_attempts=3)
    assert taken and taken.message and (taken.message.attempt, taken.message.queue) == (2, "cpu")


# ---- claims ----
@pytest.mark.parametrize("change", CHANGES)
def test_a_job_that_is_not_understood_uses_up_no_attempt(bench: Bench, change: Change) -> None:
    rows, ledger = rows_of(bench), bench.ledger
    message, later = bench.submit(), bench.submit()
    as_asked = rows.get(message.job_id, "request")
    rows.change(message.job_id, "request", change)
    for _ in range(5):  # more often than a job may fail
        assert ledger.claim(message.job_id, 1, worker="old", lease_s=6) is None
        assert attempt_of(bench, message.job_id) == ("queued", 1)
    assert ledger.get(message.job_id).record.started_at is None
    assert ledger.get(message.job_id).record.queue_position == 1  # it keeps its place
    assert bench.claim(later)
    assert_books_agree(rows.client, rows.prefix)
    rows.set(message.job_id, "request", as_asked or "")  # for a worker that understands it
    assert bench.claim(message) and bench.succeed(message)
    assert attempt_of(bench, message.job_id) == ("succeeded", 1)
    assert rows.get(message.job_id, "runs") == "1"
    assert_books_agree(rows.client, rows.prefix)


def test_what_is_given_back_is_offered_again_later_each_time(bench: Bench) -> None:
    rows, message = rows_of(bench), bench.submit()
    rows.change(message.job_id, "request", unknown_kernel)
    waited = []
    for _ in range(6):
        assert bench.ledger.claim(message.job_id, 1, worker="old", lease_s=6) is None
        since = bench.clock.now_us
        while not bench.ledger.lost_messages("cpu", broker_is_empty=True, grace_s=0):
            bench.clock.advance(0.5)
        waited.append((bench.clock.now_us - since) / 1e6)
    assert waited == [0.5, 1.5, 3.5, 7.5, 10.5, 10.5]


def test_others_of_the_launch_go_on(bench: Bench) -> None:
    """And those that come with a job which is not understood."""
    rows, ledger = rows_of(bench), bench.ledger
    matrices = JobMatrices(a=b"a" * 8, b=b"b" * 8, product_bytes=8, ttl_s=60)
    jobs = [new_job(matrices=matrices, batch="x") for _ in range(4)]
    for job in jobs:
        ledger.submit(job, max_queued=9, max_queued_per_owner=9)
    for odd in (jobs[0], jobs[2]):
        rows.change(odd.id, "request", unknown_kernel)
    claimed = ledger.claim_batch(jobs[0].id, 1, worker="old", lease_s=6, max_jobs=4)
    assert [each.job.id for each in claimed] == [jobs[1].id, jobs[3].id]
    assert [attempt_of(bench, job.id) for job in jobs] == [("queued", 1), ("running", 1)] * 2
    assert ledger.succeed(jobs[1].id, 1, outcome(), b"c" * 8)
    assert ledger.fail(jobs[3].id, 1, job_error(WorkerLost), max_attempts=3)


def test_only_the_worker_that_claimed_it_gives_a_job_back(bench: Bench) -> None:
    """Its first try may have been carried out, and another worker have claimed the job since."""
    message = bench.running()
    ledger_of(bench).scripts.run("refuse", "another worker", 10**7, message.job_id, "1")
    assert attempt_of(bench, message.job_id) == ("running", 1)


def test_its_events_tell_that_it_was_given_back(bench: Bench) -> None:
    rows, message = rows_of(bench), bench.submit()
    as_asked = rows.get(message.job_id, "request")
    rows.change(message.job_id, "request", unknown_kernel)
    assert bench.ledger.claim(message.job_id, 1, worker="old", lease_s=6) is None
    rows.set(message.job_id, "request", as_asked or "")
    assert bench.claim(message) and bench.succeed(message)
    assert bench.events(message.job_id) == ["queued", "running", "queued", "running", "succeeded"]


# ---- chains ----
def test_a_chain_goes_through_a_job_of_another_version(bench: Bench) -> None:
    rows, ledger, first = rows_of(bench), bench.ledger, bench.submit()
    second, _ = ledger.submit(new_job(a=first.job_id), max_queued=9, max_queued_per_owner=9)
    assert bench.claim(first)
    rows.change(first.job_id, "request", added_field)
    rows.change(second.id, "request", lambda request: request.update(priority=1))
    assert bench.succeed(first)
    assert attempt_of(bench, second.id) == ("queued", 1)
    assert ledger.claim(second.id, 1, worker="old", lease_s=6) is None
    rows.change(second.id, "request", lambda request: request.pop("priority"))
    claimed = ledger.claim(second.id, 1, worker="new", lease_s=6)
    assert claimed and claimed.job.record.operands[0].matrix


# ---- when nobody understands it ----
def worker(name: str, queue: str = "cpu") -> WorkerInfo:
    now = datetime.now(UTC)
    device = DeviceInfo(name="A CPU", device_class="cpu")
    return WorkerInfo(
        id=name,
        state="ready",
        device=device,
        queue=queue,
        kernels=("cpu_blas",),
        started_at=now,
        seen_at=now,
        lease_s=15,
    )


def test_a_job_fails_when_all_live_workers_refused_it_for_long(bench: Bench) -> None:
    rows, refusals, message = rows_of(bench), ledger_of(bench).refusals, bench.submit()
    as_asked = rows.get(message.job_id, "request")
    rows.change(message.job_id, "request", unknown_kernel)
    for old in ("one", "two"):
        assert bench.ledger.claim(message.job_id, 1, worker=old, lease_s=6) is None
    one, two, other = worker("one"), worker("two"), worker("one", queue="gpu")
    assert refusals.give_up([one, two], older_than_s=LONG_S) == 0  # not for long yet
    bench.clock.advance(LONG_S + 1)
    assert refusals.give_up([], older_than_s=LONG_S) == 0  # it waits for a worker, as every job does
    assert refusals.give_up([other], older_than_s=LONG_S) == 0
    assert refusals.give_up([one, worker("three")], older_than_s=LONG_S) == 0  # which may be busy
    assert attempt_of(bench, message.job_id) == ("queued", 1)
    assert refusals.give_up([one, two, worker("three", queue="gpu")], older_than_s=LONG_S) == 1
    record = bench.ledger.get(message.job_id).record
    assert record.state is JobState.FAILED and record.error
    assert (record.error.type, record.error.detail) == (NotUnderstood.type, NotUnderstood().detail)
    assert refusals.give_up([one, two], older_than_s=LONG_S) == 0
    assert_books_agree(rows.client, rows.prefix)
    # Once there are others, its owner has it tried again.
    _, again = bench.ledger.redrive(message.job_id)
    assert again and bench.ledger.claim(message.job_id, 2, worker="one", lease_s=6) is None
    assert refusals.give_up([one, two], older_than_s=0) == 0  # of those, one was not asked again
    rows.set(message.job_id, "request", as_asked or "")
    assert bench.claim(again) and bench.succeed(again)
    assert refusals.give_up([one], older_than_s=0) == 0


def test_a_job_that_is_cancelled_meanwhile_is_not_failed(bench: Bench) -> None:
    rows, refusals, message = rows_of(bench), ledger_of(bench).refusals, bench.submit()
    rows.change(message.job_id, "request", unknown_kernel)
    assert bench.ledger.claim(message.job_id, 1, worker="one", lease_s=6) is None
    bench.ledger.cancel(message.job_id)
    bench.clock.advance(LONG_S + 1)
    assert refusals.give_up([worker("one")], older_than_s=LONG_S) == 0
    assert bench.state(message.job_id) == "cancelled" and not rows.client.exists(f"{rows.prefix}refused")


def test_a_heartbeat_of_another_version_is_heard(bench: Bench) -> None:
    rows = rows_of(bench)
    registry = WorkerRegistry(rows.client, prefix=rows.prefix)
    registry.beat(worker("new"), 60)
    info = json.loads(worker("new").model_dump_json()) | {"state": "draining", "floor": 3}
    rows.client.hset(f"{rows.prefix}workers:info", "new", json.dumps(info))
    (live,) = registry.live()
    assert (live.id, live.state, live.kernels) == ("new", "draining", ("cpu_blas",))
