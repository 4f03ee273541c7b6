"""Jobs whose operands are the products of other jobs, on both ledgers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.errors import DeviceFault, OperandFailed, OperandMissing, StoreFull
from jobs.ledger.acceptance import Acceptance
from jobs.ledger.codec import job_error
from jobs.ledger.interface import Success
from jobs.models import product_id
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.job_matrices import JobMatrices
from jobs.states import JobState
from tests.support.ledger.chained import PRODUCT, SMALL, error, fail, messages, operand, submit, succeed
from tests.support.ledger.ledgers import Bench, assert_books_agree, outcome, redis_bench


@pytest.fixture(autouse=True)
def books(bench: Bench) -> Iterator[None]:
    yield
    if bench.clock.client is not None:
        assert_books_agree(bench.clock.client, bench.clock.prefix)


# ---- waiting ----
def test_it_waits_in_no_queue_and_is_queued_by_the_success(bench: Bench) -> None:
    first = submit(bench).job_id
    second = submit(bench, first)
    record = bench.ledger.get(second.job_id).record
    assert (record.state, record.queue_position) == (JobState.QUEUED, None)
    assert record.progress.current == f"waits for {first}"
    assert bench.ledger.counts()[JobState.QUEUED] == 2 and bench.ledger.depths(["cpu"])["cpu"].waiting == 1
    assert messages(bench) == 1
    bench.clock.advance(100)
    lost = bench.ledger.lost_messages("cpu", broker_is_empty=True, grace_s=0)
    assert [message.job_id for message in lost] == [first]
    assert not bench.claim(second) and bench.ledger.republish(second) is None
    assert succeed(bench, first) is Acceptance.AWAITED
    record = bench.ledger.get(second.job_id).record
    assert (record.state, record.queue_position, record.progress.current) == (JobState.QUEUED, 1, None)
    assert operand(bench, second.job_id) == product_id(first, 1)
    assert bench.claim(second) and bench.succeed(second)
    timing = bench.ledger.get(second.job_id).record.timing
    assert timing is not None and (timing.queue_ms, timing.total_ms) == (0, 100_000)
    assert bench.events(second.job_id) == ["queued", "queued", "running", "succeeded"]


def test_two_products_are_both_waited_for(bench: Bench) -> None:
    one, two = submit(bench).job_id, submit(bench).job_id
    both, squared = submit(bench, one, two), submit(bench, two, two)
    assert bench.ledger.get(both.job_id).record.progress.current == f"waits for {' and '.join(sorted((one, two)))}"
    assert succeed(bench, two) is Acceptance.AWAITED
    assert not bench.claim(both) and bench.claim(squared)
    assert bench.ledger.get(both.job_id).record.progress.current == f"waits for {one}"
    assert succeed(bench, one) is Acceptance.AWAITED
    assert bench.claim(both)
    assert (operand(bench, both.job_id, "a"), operand(bench, both.job_id, "b")) == (
        product_id(one, 1),
        product_id(two, 1),
    )


def test_two_that_succeed_in_one_step_are_both_waited_for(bench: Bench) -> None:
    one, two = (submit(bench, matrices=SMALL, batch="one") for _ in range(2))
    both, last = submit(bench, two.job_id, one.job_id), submit(bench, two.job_id)
    claimed = bench.ledger.claim_batch(one.job_id, 1, worker="w", lease_s=6, max_jobs=9)
    assert [each.job.id for each in claimed] == [one.job_id, two.job_id]
    done = [Success(each.job_id, 1, outcome(), fill * 300) for each, fill in ((one, b"1"), (two, b"2"))]
    assert bench.ledger.succeed_all(done) == [Acceptance.AWAITED, Acceptance.AWAITED]
    found = bench.ledger.claim(both.job_id, 1, worker="w", lease_s=6)
    assert found is not None and found.a is not None and found.b is not None
    assert (found.a.packed, found.b.packed) == (b"2" * 300, b"1" * 300)
    assert bench.claim(last)


def test_one_that_fails_takes_along_what_waits_for_it_twice(bench: Bench) -> None:
    first = submit(bench).job_id
    second = submit(bench, first).job_id
    third = submit(bench, first, second).job_id
    bench.ledger.cancel(first)
    for job_id in (second, third):
        assert error(bench, job_id)[0] == "operand_failed" and bench.events(job_id) == ["queued", "failed"]
    assert bench.ledger.counts()[JobState.FAILED] == 2 and bench.ledger.counts()[JobState.QUEUED] == 0


def test_events_of_one_that_waited_and_never_ran(bench: Bench) -> None:
    first = submit(bench).job_id
    second = submit(bench, first).job_id
    assert bench.events(second) == ["queued"]
    succeed(bench, first)
    assert bench.events(second) == ["queued", "queued"]
    bench.ledger.cancel(second)
    events = bench.ledger.events(second)
    assert [event.event for event in events] == ["queued", "queued", "cancelled"]
    assert [event.data["version"] for event in events] == [1, 2, 3] and bench.ledger.get(second).version == 3


def test_a_product_that_is_there_is_not_waited_for(bench: Bench) -> None:
    first = submit(bench).job_id
    assert succeed(bench, first) is Acceptance.ACCEPTED
    second = submit(bench, first)
    assert operand(bench, second.job_id) == product_id(first, 1)
    assert bench.claim(second)


def test_a_retry_of_the_first_keeps_the_others_waiting(bench: Bench) -> None:
    first = submit(bench)
    second = submit(bench, first.job_id)
    assert bench.claim(first)
    assert bench.ledger.fail(first.job_id, 1, job_error(DeviceFault), max_attempts=2)
    assert bench.ledger.get(second.job_id).record.progress.current == f"waits for {first.job_id}"
    succeed(bench, first.job_id)
    assert operand(bench, second.job_id) == product_id(first.job_id, 2)


# ---- small products ----
def test_a_small_product_is_copied_into_the_record(bench: Bench) -> None:
    first = submit(bench, matrices=SMALL).job_id
    second = submit(bench, first, first, matrices=JobMatrices(ttl_s=60))
    assert succeed(bench, first, PRODUCT) is Acceptance.AWAITED
    bench.ledger.delete(first)
    claimed = bench.ledger.claim(second.job_id, 1, worker="w", lease_s=6)
    assert claimed is not None and claimed.a is not None and claimed.b is not None
    assert claimed.a.packed == claimed.b.packed == PRODUCT
    assert claimed.job.operands_in_record == "ab" and operand(bench, second.job_id) is None


def test_room_for_it_is_charged_at_submit(bench: Bench) -> None:
    first = submit(bench, matrices=SMALL).job_id
    for _ in range(9):  # of 3000 bytes for one owner, 300 each
        submit(bench, first)
    with pytest.raises(StoreFull):
        submit(bench, first)
    succeed(bench, first, PRODUCT)
    with pytest.raises(StoreFull):
        submit(bench, first)
    bench.ledger.drop_product(first, 1, owner="anonymous")
    with pytest.raises(OperandMissing) as refused:
        submit(bench, first)
    assert refused.value.field == "a"


def test_what_is_charged_is_what_came(bench: Bench) -> None:
    first = submit(bench, matrices=SMALL).job_id
    submit(bench, first)
    succeed(bench, first, PRODUCT[:100])
    bench.ledger.delete(first)
    with pytest.raises(StoreFull):
        submit(bench, matrices=JobMatrices(product_bytes=2901))
    submit(bench, matrices=JobMatrices(product_bytes=2900))


def test_those_that_waited_for_one_product_go_together(bench: Bench) -> None:
    first = submit(bench, matrices=SMALL).job_id
    seconds = [submit(bench, first, batch="one") for _ in range(3)]
    succeed(bench, first, PRODUCT)
    claimed = bench.ledger.claim_batch(seconds[0].job_id, 1, worker="w", lease_s=6, max_jobs=9)
    assert [each.job.id for each in claimed] == [each.job_id for each in seconds]
    assert all(each.a is not None and each.a.packed == PRODUCT for each in claimed)


# ---- ends that give no product ----
@pytest.mark.parametrize("end", ["failed", "was cancelled"])
def test_dependents_fail_with_it_and_theirs_too(bench: Bench, end: str) -> None:
    first = submit(bench).job_id
    second = submit(bench, first).job_id
    third = submit(bench, b=second).job_id
    if end == "failed":
        fail(bench, first)
    else:
        bench.ledger.cancel(first)
    assert error(bench, second)[0] == error(bench, third)[0] == "operand_failed"
    assert f"the product of {first}, which {end};" in error(bench, second)[1]
    assert f"the product of {second}, which failed;" in error(bench, third)[1]
    assert bench.events(third) == ["queued", "failed"]
    assert bench.ledger.dead_letters() == []


def test_a_chain_in_the_middle_of_which_a_job_is_cancelled(bench: Bench) -> None:
    first = submit(bench).job_id
    second = submit(bench, first)
    third = submit(bench, second.job_id).job_id
    job, ended = bench.ledger.cancel(second.job_id)
    assert (job.record.state, ended) == (JobState.CANCELLED, "cancelled")
    assert "which was cancelled;" in error(bench, third)[1]
    assert succeed(bench, first) is not Acceptance.REFUSED
    assert bench.state(second.job_id) == "cancelled" and not bench.claim(second)


def test_a_job_that_ended_without_a_product_is_refused(bench: Bench) -> None:
    first = submit(bench).job_id
    bench.ledger.cancel(first)
    with pytest.raises(OperandFailed, match=f"{first}, which was cancelled") as refused:
        submit(bench, b=first)
    assert refused.value.field == "b"
    bench.ledger.delete(first)
    for unknown, owner in ((first, "anonymous"), (submit(bench).job_id, "another")):
        with pytest.raises(OperandMissing):
            submit(bench, unknown, owner=owner)


def test_a_product_that_its_owner_deletes_before_it_is_used(bench: Bench) -> None:
    """Of a job in whose record it should be and is not."""
    first = submit(bench, matrices=SMALL).job_id
    second = submit(bench, first).job_id
    succeed(bench, first, None)
    assert error(bench, second)[0] == "operand_failed"


# ---- redrive ----
def test_dependents_are_redriven_by_their_owner(bench: Bench) -> None:
    first = submit(bench).job_id
    second = submit(bench, first).job_id
    fail(bench, first)
    with pytest.raises(OperandFailed):
        bench.ledger.redrive(second)
    bench.ledger.redrive(first)
    _, message = bench.ledger.redrive(second)
    assert message is not None
    assert bench.ledger.get(second).record.progress.current == f"waits for {first}"
    assert not bench.claim(message)
    assert succeed(bench, first) is Acceptance.AWAITED
    assert operand(bench, second) == product_id(first, 2)
    assert bench.claim(message)
    bench.ledger.cancel(second)
    _, again = bench.ledger.redrive(second)
    assert again is not None and bench.claim(again), "its operand is known by now"


def test_a_redrive_without_its_room_is_refused(bench: Bench) -> None:
    first = submit(bench, matrices=SMALL).job_id
    second = submit(bench, first, matrices=JobMatrices(ttl_s=1)).job_id
    bench.ledger.cancel(first)
    bench.clock.advance(2)
    assert bench.ledger.expire_matrices() == 1
    bench.ledger.redrive(first)
    with pytest.raises(OperandMissing):
        bench.ledger.redrive(second)


# ---- many ----
def settle(bench: Bench) -> list[int]:
    """What each step of the sweeper's settles, until nothing is left."""
    steps = []
    while count := bench.ledger.settle_dependents():
        steps.append(count)
    return steps


def test_one_step_settles_a_bounded_number(valkey: EmbeddedServer, key_prefix: str) -> None:
    with redis_bench(valkey, f"{key_prefix}many:") as bench:
        first = submit(bench).job_id
        dependents = [submit(bench, first) for _ in range(150)]
        chain = [first]
        for _ in range(100):
            chain.append(submit(bench, chain[-1]).job_id)
        fail(bench, first)
        assert bench.ledger.counts()[JobState.FAILED] == 1 + 64
        bench.ledger.delete(first)
        assert settle(bench) == [64, 64, 58]
        assert bench.ledger.counts()[JobState.FAILED] == 250
        assert "which failed" in error(bench, dependents[0].job_id)[1]
        assert "which was deleted" in error(bench, dependents[-1].job_id)[1]
        assert bench.clock.client is not None
        assert assert_books_agree(bench.clock.client, bench.clock.prefix) == 250


def test_the_rest_is_queued_in_order_and_a_redriven_job_is_waited_for(valkey: EmbeddedServer, key_prefix: str) -> None:
    with redis_bench(valkey, f"{key_prefix}many:") as bench:
        first = submit(bench, matrices=SMALL.model_copy(update={"product_bytes": 10})).job_id
        dependents = [submit(bench, first) for _ in range(100)]
        succeed(bench, first, b"0123456789")
        assert messages(bench) == 1 + 64  # that of the first is not fetched here
        assert settle(bench) == [36]
        waiting = [bench.ledger.get(each.job_id).record.queue_position for each in dependents]
        assert waiting == list(range(1, 101))
        other = submit(bench).job_id
        dependents = [submit(bench, other) for _ in range(70)]
        bench.ledger.cancel(other)
        bench.ledger.redrive(other)
        assert settle(bench) == []
        assert bench.ledger.get(dependents[-1].job_id).record.progress.current == f"waits for {other}"
        succeed(bench, other)
        assert [bench.claim(each) for each in dependents] == [False] * 64 + [True] * 6
