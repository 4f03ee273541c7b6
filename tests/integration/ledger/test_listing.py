"""Listings, on both ledgers: filters, and pages that stay put while jobs come and go."""

from __future__ import annotations

import pytest

from jobs.errors import InvalidRequest, OperandMissing
from jobs.ledger import redis as redis_ledger
from jobs.ledger.codec import cursor_after, job_error
from jobs.ledger.interface import JobFilter
from jobs.states import JobState
from tests.support.ledger import memory_ledger
from tests.support.ledger.ledgers import Bench, outcome

ANY = JobFilter()


def test_newest_first_and_no_cursor_at_the_end(bench: Bench) -> None:
    ids = [bench.submit().job_id for _ in range(5)]
    page = bench.ledger.list(ANY, limit=5)
    assert [job.id for job in page.jobs] == ids[::-1]
    assert page.cursor is None
    assert bench.ledger.list(ANY, limit=4).cursor is not None
    assert [job.record.queue_position for job in page.jobs] == [5, 4, 3, 2, 1]


def test_nothing_to_list(bench: Bench) -> None:
    page = bench.ledger.list(ANY, limit=5)
    assert (page.jobs, page.cursor) == ([], None)


def test_pages_stay_put_while_jobs_come_and_go(bench: Bench) -> None:
    messages = [bench.submit() for _ in range(7)]
    ids = [message.job_id for message in messages]
    first = bench.ledger.list(ANY, limit=3)
    bench.submit()  # newer than the first page
    bench.ledger.cancel(ids[4])  # on the first page
    bench.ledger.delete(ids[4])  # the very job that the cursor stands at
    bench.ledger.cancel(ids[2])
    second = bench.ledger.list(ANY, limit=3, cursor=first.cursor)
    third = bench.ledger.list(ANY, limit=3, cursor=second.cursor)
    assert [job.id for job in (*first.jobs, *second.jobs, *third.jobs)] == ids[::-1]
    assert third.cursor is None


def test_each_owner_sees_their_own(bench: Bench) -> None:
    alice, bob = bench.submit("alice").job_id, bench.submit("bob").job_id
    assert [job.id for job in bench.ledger.list(JobFilter(owner="alice"), limit=9).jobs] == [alice]
    assert [job.id for job in bench.ledger.list(JobFilter(owner="bob"), limit=9).jobs] == [bob]
    assert bench.ledger.list(JobFilter(owner="carol"), limit=9).jobs == []


def test_a_job_is_listed_under_its_present_state(bench: Bench) -> None:
    def listed(state: JobState) -> list[str]:
        found = [job.id for job in bench.all_jobs(JobFilter(owner="alice", state=state), limit=2)]
        assert bench.ledger.counts()[state] == len(found)
        assert bench.all_jobs(JobFilter(owner="bob", state=state), limit=2) == []
        return found

    one, two = bench.submit("alice"), bench.submit("alice")
    assert listed(JobState.QUEUED) == [two.job_id, one.job_id]
    assert bench.claim(one)
    assert (listed(JobState.QUEUED), listed(JobState.RUNNING)) == ([two.job_id], [one.job_id])
    assert bench.succeed(one)
    bench.ledger.cancel(two.job_id)
    assert (listed(JobState.RUNNING), listed(JobState.SUCCEEDED)) == ([], [one.job_id])
    assert listed(JobState.CANCELLED) == [two.job_id]
    bench.ledger.redrive(two.job_id)
    assert (listed(JobState.CANCELLED), listed(JobState.QUEUED)) == ([], [two.job_id])


def test_filters_by_kernel_kind_and_part_of_a_word(bench: Bench) -> None:
    waiting = bench.submit(kernel="shared_tiled")
    chosen, failed = bench.running(), bench.running()
    assert bench.ledger.succeed(chosen.job_id, 1, outcome("naive", "NVIDIA H200"))
    assert bench.ledger.fail(failed.job_id, 1, job_error(OperandMissing))

    def ids(where: JobFilter) -> list[str]:
        return [job.id for job in bench.all_jobs(where, limit=1)]

    assert ids(JobFilter(kernel="shared_tiled")) == [waiting.job_id]
    assert ids(JobFilter(kernel="naive")) == [chosen.job_id]  # asked for auto, ran naive
    assert ids(JobFilter(kernel="auto")) == [failed.job_id]
    assert ids(JobFilter(kind="matmul")) == [failed.job_id, chosen.job_id, waiting.job_id]
    assert ids(JobFilter(kind="benchmark")) == []
    assert ids(JobFilter(q="h200")) == [chosen.job_id]
    assert ids(JobFilter(q="OPERAND_m")) == [failed.job_id]
    assert ids(JobFilter(q="tiled")) == [waiting.job_id]
    assert ids(JobFilter(q=waiting.job_id[5:20].upper())) == [waiting.job_id]
    assert ids(JobFilter(q="[a-z")) == ids(JobFilter(q="é%\0")) == []
    assert ids(JobFilter(q="h200", state=JobState.SUCCEEDED, kernel="naive")) == [chosen.job_id]
    assert ids(JobFilter(q="h200", state=JobState.FAILED)) == []
    bench.ledger.redrive(failed.job_id)
    assert ids(JobFilter(q="operand_m")) == []  # that error is history


def test_a_rare_match_is_found_over_pages_that_read_a_bounded_part(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (redis_ledger, memory_ledger):
        monkeypatch.setattr(module, "SCAN_LIMIT", 10)
    rare = bench.submit(kernel="naive")
    for _ in range(25):
        bench.submit()
    where = JobFilter(kernel="naive")
    first = bench.ledger.list(where, limit=5)
    assert first.jobs == [] and first.cursor is not None
    assert [job.id for job in bench.all_jobs(where, limit=5)] == [rare.job_id]
    assert len(bench.ledger.list(ANY, limit=20).jobs) == 20  # nothing to look for, nothing to bound


@pytest.mark.parametrize("cursor", ["", "x", "====", "ZjE", "amo", cursor_after(7) + "!", "é", "\ud800", "0" * 5000])
def test_a_made_up_cursor_is_refused(bench: Bench, cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        bench.ledger.list(ANY, limit=5, cursor=cursor)
