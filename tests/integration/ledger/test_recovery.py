"""What brings jobs back, on both ledgers: leases of silent workers, and messages that must be gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jobs.errors import NoRoomForProduct, TimeLimitExceeded, WorkerLost
from jobs.ledger.codec import job_error
from jobs.ledger.interface import HARD_LIMIT_MARGIN_S, MAY_SWAP
from jobs.ledger.messages import JobMessage
from jobs.states import JobState
from tests.support.ledger.ledgers import Bench

FULL = job_error(NoRoomForProduct)


def lost(bench: Bench, *, empty: bool, grace_s: float = 0) -> Sequence[JobMessage]:
    bench.clock.advance(0.001)
    return bench.ledger.lost_messages("cpu", broker_is_empty=empty, grace_s=grace_s)


# ---- leases ----
def test_a_silent_workers_job_is_accepted_back(bench: Bench) -> None:
    message = bench.running(lease_s=6)
    bench.clock.advance(5.9)
    assert bench.ledger.expired_leases() == []
    assert bench.ledger.take_back(message.job_id, 1, max_attempts=3) is None
    bench.clock.advance(0.1)
    assert bench.ledger.expired_leases() == [(message.job_id, 1)]
    taken = bench.ledger.take_back(message.job_id, 1, max_attempts=3)
    assert taken and taken.message and taken.message.attempt == 2
    assert bench.ledger.take_back(message.job_id, 1, max_attempts=3) is None
    assert bench.ledger.expired_leases() == []
    assert not bench.succeed(message)  # the worker was only slow
    assert bench.state(message.job_id) == "queued"


def test_a_renewed_lease_holds(bench: Bench) -> None:
    message = bench.running(lease_s=6)
    for _ in range(10):
        bench.clock.advance(5)
        assert bench.ledger.renew(message.job_id, 1, lease_s=6)
        assert bench.ledger.expired_leases() == []
    bench.clock.advance(7)
    assert bench.ledger.expired_leases() == [(message.job_id, 1)]
    assert bench.ledger.renew(message.job_id, 1, lease_s=6)  # late, but nobody has taken it yet
    assert bench.ledger.take_back(message.job_id, 1, max_attempts=3) is None
    assert bench.succeed(message)


def test_a_job_that_kills_its_workers_ends_as_a_dead_letter(bench: Bench) -> None:
    message = bench.submit()
    for attempt in (1, 2, 3):
        assert bench.ledger.claim(message.job_id, attempt, worker="w", lease_s=1)
        bench.clock.advance(1)
        taken = bench.ledger.take_back(message.job_id, attempt, max_attempts=3)
        assert taken and taken.state is (JobState.QUEUED if attempt < 3 else JobState.FAILED)
        assert (taken.message is None) == (attempt == 3)
    record = bench.ledger.get(message.job_id).record
    assert record.error and record.error.type == WorkerLost.type
    assert bench.ledger.dead_letters() == [message.job_id]
    bench.clock.advance(1)
    other = bench.running(lease_s=1)
    bench.clock.advance(1)
    assert bench.ledger.take_back(other.job_id, 1, max_attempts=1)
    assert bench.ledger.dead_letters() == [other.job_id, message.job_id]
    assert bench.ledger.dead_letters(limit=1) == [other.job_id]
    bench.ledger.delete(other.job_id)
    bench.ledger.redrive(message.job_id)
    assert bench.ledger.dead_letters() == []


def test_a_worker_heard_of_past_the_time_limit_was_ended_for_it(bench: Bench) -> None:
    message = bench.running(lease_s=6, timeout_s=10)
    for _ in range(11):
        bench.clock.advance(1)
        assert bench.ledger.renew(message.job_id, 1, lease_s=6)
    bench.clock.advance(6)
    taken = bench.ledger.take_back(message.job_id, 1, max_attempts=3)
    assert taken and (taken.state, taken.message) == (JobState.FAILED, None)
    record = bench.ledger.get(message.job_id).record
    assert record.error and record.error.type == TimeLimitExceeded.type
    assert bench.ledger.dead_letters() == []


def test_an_outage_longer_than_the_time_limit_is_not_the_jobs_fault(bench: Bench) -> None:
    message = bench.running(lease_s=6, timeout_s=10)
    bench.clock.advance(3600)  # the worker died early on, and nobody was there to see it
    taken = bench.ledger.take_back(message.job_id, 1, max_attempts=3)
    assert taken and taken.state is JobState.QUEUED


def test_no_lease_outlives_the_hard_limit(bench: Bench) -> None:
    message = bench.running(lease_s=6, timeout_s=10)
    for _ in range(10 + int(HARD_LIMIT_MARGIN_S)):  # a worker that hangs, and whose heart still beats
        assert bench.ledger.expired_leases() == []
        bench.clock.advance(1)
        assert bench.ledger.renew(message.job_id, 1, lease_s=6)
    assert bench.ledger.expired_leases() == [(message.job_id, 1)]
    taken = bench.ledger.take_back(message.job_id, 1, max_attempts=3)
    assert taken and taken.state is JobState.FAILED
    assert not bench.ledger.renew(message.job_id, 1, lease_s=6)


def test_leases_come_oldest_first_and_bounded(bench: Bench) -> None:
    jobs = [bench.running(lease_s=lease_s) for lease_s in (3, 1, 2, 9)]
    bench.clock.advance(5)
    assert [job_id for job_id, _ in bench.ledger.expired_leases()] == [jobs[i].job_id for i in (1, 2, 0)]
    assert bench.ledger.expired_leases(limit=1) == [(jobs[1].job_id, 1)]


# ---- messages ----
def test_waiting_is_not_being_lost(bench: Bench) -> None:
    first, *_ = [bench.submit() for _ in range(3)]
    bench.clock.advance(3600)
    assert lost(bench, empty=False) == []  # nothing started: all may still be in the broker
    assert bench.claim(first)
    assert lost(bench, empty=False) == []


def submitted(bench: Bench, count: int, every_s: float = 1.0) -> list[JobMessage]:
    """Jobs whose messages were sent one after the other."""
    messages = []
    for _ in range(count):
        messages.append(bench.submit())
        bench.clock.advance(every_s)
    return messages


def test_a_job_that_later_ones_overtook_has_lost_its_message(bench: Bench) -> None:
    first, second, third = submitted(bench, 3)
    assert bench.claim(second)
    assert lost(bench, empty=False) == [first]
    assert bench.claim(third)
    assert lost(bench, empty=False) == [first]
    assert lost(bench, empty=False, grace_s=60) == []  # it may be on its way to a worker
    assert bench.ledger.lost_messages("gpu", broker_is_empty=False, grace_s=0) == []


def test_messages_that_swapped_places_on_their_way_are_not_lost(bench: Bench) -> None:
    first, second, third = submitted(bench, 3)
    bench.clock.advance(3600)
    assert bench.claim(second)
    assert lost(bench, empty=False, grace_s=2) == []
    assert bench.claim(third)
    assert lost(bench, empty=False, grace_s=1.5) == [first]


def test_in_a_burst_a_message_is_lost_when_many_overtook_it(bench: Bench) -> None:
    first, *others = submitted(bench, MAY_SWAP + 2, every_s=0)
    bench.clock.advance(60)
    for message in others[:-1]:
        assert bench.claim(message)
    assert lost(bench, empty=False, grace_s=2) == []
    assert bench.claim(others[-1])
    assert lost(bench, empty=False, grace_s=2) == [first]


def test_a_job_that_waits_for_an_empty_broker_has_lost_its_message(bench: Bench) -> None:
    messages = [bench.submit() for _ in range(3)]
    assert lost(bench, empty=True) == messages
    assert lost(bench, empty=True, grace_s=2) == []
    bench.clock.advance(2)
    assert lost(bench, empty=True, grace_s=2) == messages
    assert bench.ledger.lost_messages("gpu", broker_is_empty=True, grace_s=0) == []


def test_a_lost_message_is_numbered_anew_once(bench: Bench) -> None:
    first, second = submitted(bench, 2)
    assert bench.claim(second)
    version = bench.ledger.get(first.job_id).version
    again = bench.ledger.republish(first)
    assert again == replace(first, number=3)
    assert bench.ledger.republish(first) is None  # by another sweeper
    assert lost(bench, empty=False) == []
    assert lost(bench, empty=True) == [again]
    assert bench.ledger.get(first.job_id).version == version  # nothing that the record shows has changed
    assert bench.claim(again)
    assert bench.ledger.republish(again) is None


def test_a_message_thought_lost_does_not_make_others_look_lost(bench: Bench) -> None:
    first, *waiting = submitted(bench, MAY_SWAP + 4)
    again = bench.ledger.republish(first)
    assert again and again.number == len(waiting) + 2
    assert bench.claim(first)  # its first message was there after all, ahead of the others
    assert lost(bench, empty=False) == []
    assert bench.claim(waiting[0])
    assert lost(bench, empty=False) == []


def test_a_retried_job_waits_behind_the_others(bench: Bench) -> None:
    first, second, third = submitted(bench, 3)
    assert bench.claim(first)
    bench.clock.advance(6)
    taken = bench.ledger.take_back(first.job_id, 1, max_attempts=3)
    assert taken and taken.message
    assert bench.ledger.get(first.job_id).record.queue_position == 3
    assert bench.claim(second)
    assert bench.claim(third)
    assert lost(bench, empty=False) == []
    assert lost(bench, empty=True) == [taken.message]


def test_a_cancelled_jobs_message_is_not_missed(bench: Bench) -> None:
    first, second = submitted(bench, 2)
    bench.ledger.cancel(first.job_id)
    assert bench.claim(second)
    assert lost(bench, empty=True) == []
    assert bench.ledger.republish(first) is None


# ---- no room for a product ----
def test_a_job_given_back_waits_behind_all_others(bench: Bench) -> None:
    first, second = bench.running(), bench.submit()
    assert bench.ledger.give_back(first.job_id, 1, FULL, timeout_s=60) is JobState.QUEUED
    assert not bench.succeed(first)
    job = bench.ledger.get(first.job_id)
    assert (job.record.attempt, job.record.queue_position, job.record.error) == (2, 2, None)
    assert bench.ledger.get(second.job_id).record.queue_position == 1
    assert bench.ledger.events(first.job_id)[-1].data["error"]["type"] == "no_room_for_product"
    assert bench.ledger.claim(first.job_id, 2, worker="w", lease_s=6)


def test_a_job_given_back_has_all_its_runs_left(bench: Bench) -> None:
    job_id = bench.running().job_id
    for attempt in range(1, 6):
        assert bench.ledger.give_back(job_id, attempt, FULL, timeout_s=60) is JobState.QUEUED
        assert bench.ledger.claim(job_id, attempt + 1, worker="w", lease_s=0)
    taken = bench.ledger.take_back(job_id, 6, max_attempts=2)
    assert taken and taken.state is JobState.QUEUED


def test_an_attempt_knows_how_many_before_it_were_lost(bench: Bench) -> None:
    """Not counted: one given back, and all before it was cancelled and retried by its caller."""
    job_id = bench.submit().job_id

    def claimed(attempt: int) -> int:
        found = [bench.ledger.claim(job_id, attempt, worker="w", lease_s=0) for _ in "ab"]  # the second: as if lost
        (runs,) = {each.earlier_runs for each in found if each is not None}
        return runs

    assert claimed(1) == 0
    assert bench.ledger.give_back(job_id, 1, FULL, timeout_s=60) is JobState.QUEUED
    assert claimed(2) == 0
    assert bench.ledger.take_back(job_id, 2, max_attempts=9)
    assert claimed(3) == 1
    assert bench.ledger.take_back(job_id, 3, max_attempts=9)
    assert claimed(4) == 2
    bench.ledger.cancel(job_id)
    bench.ledger.redrive(job_id)
    assert claimed(5) == 0


def test_it_fails_once_it_found_no_room_for_so_long(bench: Bench) -> None:
    job_id = bench.running().job_id
    bench.clock.advance(100)  # it ran, and waited for nothing
    for attempt, state in ((1, JobState.QUEUED), (2, JobState.QUEUED), (3, JobState.FAILED)):
        assert bench.ledger.give_back(job_id, attempt, FULL, timeout_s=60) is state
        bench.ledger.claim(job_id, attempt + 1, worker="w", lease_s=60)
        bench.clock.advance(30)
    error = bench.ledger.get(job_id).record.error
    assert error and error.type == "no_room_for_product"
    assert bench.ledger.dead_letters() == []  # no worker was lost
    bench.ledger.redrive(job_id)
    assert bench.ledger.claim(job_id, 4, worker="w", lease_s=60)
    assert bench.ledger.give_back(job_id, 4, FULL, timeout_s=60) is JobState.QUEUED


def test_of_a_wait_for_its_turn_only_a_part_counts(bench: Bench) -> None:
    """In a long queue it would fail by the second of two short outages, however much room there was between them."""
    job_id = bench.running().job_id
    for attempt in range(1, 8):
        state = JobState.FAILED if attempt == 7 else JobState.QUEUED
        assert bench.ledger.give_back(job_id, attempt, FULL, timeout_s=60) is state
        bench.clock.advance(3600)
        bench.ledger.claim(job_id, attempt + 1, worker="w", lease_s=60)


def test_a_job_that_is_another_attempt_s_is_left_alone(bench: Bench) -> None:
    message = bench.running()
    bench.ledger.cancel(message.job_id)
    assert bench.ledger.give_back(message.job_id, 1, FULL, timeout_s=60) is None
    assert bench.state(message.job_id) == "cancelled"
