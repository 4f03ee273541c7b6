"""What is known of a product in tiles beyond its attempt: fenced, and of use to the same plan alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from jobs.errors import StaleAttempt
from jobs.ledger.interface import Claimed
from jobs.matrices.interface import Partial
from jobs.models import ANONYMOUS, JobError, MatmulRequest, NewJob, Progress
from jobs.requests.operands import OperandRef, RandomSpec
from kernels.catalog import BY_NAME
from kernels.entries.libraries import CUBLASMP
from kernels.model.numerics import Problem
from kernels.tiles.estimate import Estimate
from kernels.tiles.plan import TilePlan, spans
from tests.support.ledger.memory_ledger import MemoryLedger
from worker.check.verify import NOT_CHECKED
from worker.device.tiles import CheckedTile, TileRecord, Tiling, described
from worker.product.tile_journal import TileJournal
from worker.product.tiled import goes_on

N = 100


def tiling(rows: int = 4) -> Tiling:
    plan = TilePlan(Problem(N, N, N, "float32"), "a", 1, spans(1, 1), spans(N, rows), spans(N, 1))
    return described(plan, Estimate(1.0, 7.0, 2.0, 0.0), "on one GPU")


@dataclass
class Lab:
    """A job, and what its attempts write."""

    ledger: MemoryLedger = field(default_factory=MemoryLedger)

    def __post_init__(self) -> None:
        spec = RandomSpec(shape=(N, N), dtype="float32")
        ref = OperandRef(source="random", random=spec, dtype="float32", shape=(N, N))
        request = MatmulRequest(a=ref, b=ref, accuracy="fp32")
        job = NewJob(owner=ANONYMOUS, queue="gpu", timeout_s=600, request=request)
        self.ledger.submit(job, max_queued=9, max_queued_per_owner=9)
        self.job_id = job.id

    def attempt(self, number: int) -> TileJournal:
        claimed = self.ledger.claim(self.job_id, number, worker="w", lease_s=60)
        assert claimed is not None
        return self.journal(claimed)

    def journal(self, claimed: Claimed) -> TileJournal:
        return TileJournal(claimed, self.ledger, lambda: None)

    def ended(self, number: int) -> None:
        self.ledger.fail(self.job_id, number, JobError(type="worker_lost", detail="Lost."), max_attempts=9)


class Found(Partial):
    """A place with what an earlier attempt wrote."""

    is_found, mark = True, 7

    def touch(self) -> None:
        """Nothing looks."""


def add(journal: TileJournal, planned: Tiling, count: int) -> None:
    for tile in list(planned.plan.tiles())[:count]:
        record = TileRecord(tile=tile.number, residual=0.5, fingerprint=2**64 - 1, a=1, b=2, kernel_ms=3.0)
        journal.add(CheckedTile(tile, NOT_CHECKED, record))


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_the_record_says_which_way_it_goes_before_the_first_tile(lab: Lab) -> None:
    lab.attempt(1).begin(tiling(), "cublas", {}, found=None)
    progress = lab.ledger.get(lab.job_id).record.progress
    assert (progress.done, progress.total, progress.eta_s) == (0, 4, 8.0)
    assert progress.current == "cublas in 4 tiles of 25×100 on one GPU, about 8.0 s"


def test_tiles_of_an_earlier_attempt_count_where_their_memory_is_found(lab: Lab) -> None:
    first = lab.attempt(1)
    seed = first.begin(tiling(), "cublas", {}, found=None)
    add(first, tiling(), 3)
    lab.ended(1)
    second = lab.attempt(2)
    assert second.header is not None and second.header.kernel == "cublas"
    assert second.begin(tiling(), "cublas", {}, found=seed) == seed
    assert sorted(second.records) == [0, 1, 2] and second.records[0].fingerprint == 2**64 - 1
    progress = lab.ledger.get(lab.job_id).record.progress
    assert (progress.done, progress.eta_s) == (3, 2.0)


@pytest.mark.parametrize(
    "case", ["no memory", "memory of another attempt", "another plan", "spoilt", "another version"]
)
def test_else_all_begins_anew_with_another_seed(lab: Lab, case: str) -> None:
    first = lab.attempt(1)
    seed = first.begin(tiling(), "cublas", {}, found=None)
    add(first, tiling(), 3)
    if case == "spoilt":
        first.spoil()
    if case == "another version":
        lab.ledger.keep_findings(lab.job_id, 1, {f"tile:{seed}:3": b"{}"}, Progress(done=4, total=4), {})
    lab.ended(1)
    second = lab.attempt(2)
    planned = tiling(5) if case == "another plan" else tiling()
    found = {"no memory": None, "memory of another attempt": seed + 1}.get(case, seed)
    again = second.begin(planned, "naive", {}, found=found)
    assert again != seed and not second.records
    add(second, planned, 1)
    lab.ended(2)
    third = lab.attempt(3)
    third.begin(planned, "naive", {}, found=again)
    assert sorted(third.records) == [0]


def test_an_attempt_that_was_given_up_on_keeps_nothing(lab: Lab) -> None:
    claimed = lab.ledger.claim(lab.job_id, 1, worker="w", lease_s=60)
    assert claimed is not None
    late = lab.journal(claimed)
    late.begin(tiling(), "cublas", {}, found=None)
    lab.ended(1)
    with pytest.raises(StaleAttempt):
        add(late, tiling(), 1)
    assert not [name for name in lab.ledger.findings(lab.job_id) if name.startswith("tile:")]


def test_the_pace_is_that_of_tiles(lab: Lab) -> None:
    """What a library took before the first is not taken for theirs."""
    journal, planned = lab.attempt(1), tiling()
    journal.begin(planned, "cublas_xt", {}, found=None)
    first = next(planned.plan.tiles())
    record = TileRecord(tile=first.number, residual=0.5, fingerprint=1, a=1, b=2, kernel_ms=0.0)
    journal.add(CheckedTile(first, NOT_CHECKED, record), after_s=3600.0)
    assert lab.ledger.get(lab.job_id).record.progress.eta_s == 0.0


def test_no_tile_counts_where_a_library_writes_the_whole_anew() -> None:
    found = Found()
    assert goes_on(BY_NAME["cublas"], found) and not goes_on(BY_NAME["cublas"], None)
    assert not goes_on(BY_NAME["cublas_xt"], found) and not goes_on(CUBLASMP, found)
