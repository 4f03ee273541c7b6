"""Jobs of a device class that lost its last worker: `auto` ones go to another class, others wait and say so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from jobs.fleet.workers import WorkerInfo
from jobs.ledger.queues import QueuedJob
from jobs.ledger.redis import RedisLedger
from jobs.models import ANONYMOUS
from jobs.redis.embedded import EmbeddedServer
from jobs.sweeper.stranded import BATCH, StrandedJobs
from tests.integration.queues.test_fairness import SMALL, Floor
from tests.support.ledger.ledgers import assert_books_agree, new_job, redis_bench
from tools.harness.api import worker_info

CPU, GPU = worker_info("cpu"), worker_info("gpu", kernels=("naive",), device_class="gpu", compute_capability=(9, 0))
AFTER_S = 60.0


@dataclass
class Fleet:
    """A floor, its live workers, and what the sweeper does about those that are gone."""

    floor: Floor
    live: list[WorkerInfo] = field(default_factory=lambda: [CPU])

    def __post_init__(self) -> None:
        assert isinstance(self.floor.bench.ledger, RedisLedger)
        clock = self.floor.bench.clock
        self.ledger = self.floor.bench.ledger
        self.stranded = StrandedJobs(
            self.ledger.moves, lambda: self.live, after_s=AFTER_S, clock=lambda: clock.now_us / 1e6
        )

    def submit(self, count: int = 1, *, owner: str = ANONYMOUS, **options: Any) -> list[str]:
        """Jobs for a GPU."""
        return self.floor.submit(owner, count, queue="gpu", **options)

    def sweep_later(self) -> int:
        """A sweep that finds the GPU gone for long."""
        self.stranded.sweep()
        self.floor.bench.clock.advance(AFTER_S)
        return self.stranded.sweep()


@pytest.fixture
def fleet(valkey: EmbeddedServer, key_prefix: str) -> Iterator[Fleet]:
    with redis_bench(valkey, key_prefix) as bench:
        yield Fleet(Floor(bench))
        assert bench.clock.client is not None
        assert_books_agree(bench.clock.client, key_prefix)


def test_auto_jobs_go_where_a_worker_lives_and_named_ones_wait(fleet: Fleet) -> None:
    first, last = fleet.submit(3), fleet.submit(2)
    (named,) = fleet.submit(kernel="naive")
    (own,) = fleet.floor.submit(ANONYMOUS)
    assert fleet.sweep_later() == 5
    assert fleet.floor.messages() == [own, *first, *last]
    assert fleet.floor.messages("gpu") == [named]
    assert fleet.ledger.get(first[0]).queue == "cpu"
    claimed = [fleet.floor.claim() for _ in range(6)]
    assert all(claimed) and fleet.floor.claim() is None
    assert fleet.floor.bench.state(named) == "queued"


def test_a_worker_that_is_gone_for_a_moment_keeps_its_jobs(fleet: Fleet) -> None:
    fleet.submit(2)
    fleet.stranded.sweep()
    fleet.floor.bench.clock.advance(AFTER_S - 1)
    assert fleet.stranded.sweep() == 0
    fleet.live.append(GPU)
    fleet.stranded.sweep()
    fleet.live.remove(GPU)
    assert fleet.stranded.sweep() == 0
    fleet.floor.bench.clock.advance(AFTER_S)
    assert fleet.stranded.sweep() == 2


@pytest.mark.parametrize("live", [[], [worker_info(kernels=())], [worker_info(kernels=("naive",))]])
def test_a_job_goes_nowhere_where_no_live_worker_has_a_kernel_for_it(fleet: Fleet, live: list[WorkerInfo]) -> None:
    jobs = fleet.submit()
    fleet.live[:] = live
    assert fleet.sweep_later() == 0
    assert fleet.floor.messages("gpu") == jobs


@pytest.mark.parametrize(("accuracy", "moved"), [("fp32", 0), ("tf32", 1)])
def test_the_accuracy_class_is_kept(fleet: Fleet, accuracy: str, moved: int) -> None:
    job = new_job(queue="cpu")
    request = job.request.model_copy(update={"accuracy": accuracy})
    fleet.ledger.submit(job.model_copy(update={"request": request}), max_queued=9, max_queued_per_owner=9)
    fleet.live[:] = [GPU.model_copy(update={"kernels": ("cublas_tf32",)})]
    assert fleet.sweep_later() == moved
    assert len(fleet.floor.messages("gpu")) == moved


def test_a_worker_out_of_service_is_none(fleet: Fleet) -> None:
    fleet.submit()
    fleet.live.append(GPU.model_copy(update={"state": "quarantined"}))
    assert fleet.sweep_later() == 1


def test_each_sweep_moves_so_many_and_passes_over_those_that_stay(fleet: Fleet) -> None:
    stay = fleet.submit(BATCH + 10, kernel="naive")
    go = fleet.submit(BATCH + 5)
    assert [fleet.sweep_later(), *(fleet.stranded.sweep() for _ in range(3))] == [0, 90, 15, 0]
    assert fleet.floor.messages() == go and fleet.floor.messages("gpu") == stay


def test_keys_keep_their_windows_and_jobs_their_batches(fleet: Fleet) -> None:
    first = fleet.submit(3, owner="alice", matrices=SMALL, batch="one")
    second = fleet.submit(3, owner="bob", matrices=SMALL, batch="one")
    assert fleet.sweep_later() == 6
    assert fleet.floor.messages() == [first[0], second[0]] and fleet.floor.messages("gpu") == []
    claimed = fleet.floor.claim(max_jobs=9)
    assert claimed and {each.job.id for each in claimed} == {*first, *second}
    assert fleet.floor.messages() == []


def test_what_a_key_leaves_behind_gets_its_message(fleet: Fleet) -> None:
    fleet.submit(2, owner="alice")
    (named,) = fleet.submit(owner="alice", kernel="naive")
    assert fleet.floor.messages("gpu") != [named]
    assert fleet.sweep_later() == 2
    assert fleet.floor.messages("gpu") == [named]


def test_a_job_that_moved_on_stays_where_it_is(fleet: Fleet) -> None:
    running, again = fleet.submit(2)
    found = fleet.ledger.moves.waiting("gpu", after=None, limit=9)[1]
    assert [job.job_id for job in found] == [running, again]
    assert fleet.floor.claim("gpu")
    fleet.ledger.cancel(again)
    fleet.ledger.redrive(again)
    assert not any(fleet.ledger.moves.move(job, source="gpu", target="cpu") for job in found)
    assert fleet.ledger.moves.move(QueuedJob(again, 2, b""), source="gpu", target="cpu")
    assert not fleet.ledger.moves.move(QueuedJob(again, 2, b""), source="gpu", target="cpu")


def test_the_record_says_that_no_worker_is_there(fleet: Fleet) -> None:
    (job,) = fleet.submit(kernel="naive")
    fleet.ledger.refill({"gpu": 0})
    assert fleet.ledger.get(job).record.progress.current == "waits for a worker of the queue gpu; none is live"
    fleet.ledger.refill({"gpu": 1})
    assert fleet.ledger.get(job).record.progress.current is None
    fleet.ledger.refill({"gpu": 0})
    assert fleet.floor.claim("gpu")
    assert fleet.ledger.get(job).record.progress.current is None
