"""Chains through a worker: what stays on its device, what a fault does, and what is left when it dies in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.formats.elements import Array
from jobs.matrices.packed import pack
from jobs.models import ANONYMOUS, MatmulRequest, NewJob, product_id
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.job_matrices import JobMatrices
from jobs.requests.operands import OperandRef
from jobs.states import JobState
from service.submit.product import batch_of
from tests.support.workers import poison
from tests.support.workers.copying import CopyingRunner, FaultyRunner, flip
from tests.support.workers.workers import WorkerBench, running_worker
from worker.cpu.runner import CpuRunner
from worker.process.child import Child

N = 300  # large enough that the product is stored
RNG = np.random.default_rng(11)


def matrix(n: int = N, scale: int = 3) -> Array:
    """Small integers: a chain of a few is exact in float32."""
    return RNG.integers(-scale, scale, (n, n)).astype(np.float32)


def product_of(job_id: str, n: int = N) -> OperandRef:
    return OperandRef(source="job", job=job_id, dtype="float32", shape=(n, n))


def chain(bench: WorkerBench, matrices: list[Array], **options: Any) -> list[str]:
    """A·B, then that times C, and so on, submitted at once; stored operands."""
    refs = [bench.operand(each, "float32", inline=False) for each in matrices]
    jobs = [bench.submit(refs[0], refs[1], **options)]
    for ref in refs[2:]:
        jobs.append(bench.submit(product_of(jobs[-1]), ref, **options))
    return jobs


def assert_product(bench: WorkerBench, job_id: str, expected: Array) -> None:
    job = bench.ledger.get(job_id)
    assert job.record.state is JobState.SUCCEEDED, job.record.error
    np.testing.assert_array_equal(bench.product(job), expected)


@pytest.fixture
def runner(bench: WorkerBench) -> CopyingRunner:
    """As a GPU, with room for four matrices."""
    return CopyingRunner(bench.settings)


@pytest.fixture
def child(bench: WorkerBench, runner: CopyingRunner) -> Iterator[Child]:
    child = Child(bench.settings, runner, bench.ledger, bench.store)
    yield child
    child.heartbeat.stop()


# ---- what stays on the device ----
def test_no_product_of_a_chain_goes_back_to_the_device(
    bench: WorkerBench, runner: CopyingRunner, child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrices = [matrix() for _ in range(4)]
    jobs = chain(bench, matrices)
    opened: list[str] = []
    open_matrix = bench.store.open

    def watched(matrix_id: str, *arguments: Any) -> Any:
        opened.append(matrix_id)
        return open_matrix(matrix_id, *arguments)

    monkeypatch.setattr(bench.store, "open", watched)
    for job in jobs:
        child.run(job, 1)
    assert_product(bench, jobs[-1], matrices[0] @ matrices[1] @ matrices[2] @ matrices[3])
    assert runner.uploads == len(matrices) and not [name for name in opened if name.startswith("c_")]


def test_a_product_stays_though_others_are_computed_meanwhile(
    bench: WorkerBench, runner: CopyingRunner, child: Child
) -> None:
    matrices = [matrix() for _ in range(3)]
    first, second = chain(bench, matrices)
    other = bench.submit(np.ones((9, 9), np.float32), np.ones((9, 9), np.float32))
    for job in (first, other, second):
        child.run(job, 1)
    assert_product(bench, second, matrices[0] @ matrices[1] @ matrices[2])
    assert runner.uploads == len(matrices) + 2


def test_the_newest_product_is_there_for_a_job_that_comes_later(
    bench: WorkerBench, runner: CopyingRunner, child: Child
) -> None:
    (first,) = chain(bench, [matrix(), matrix()])
    child.run(first, 1)
    assert runner.cache.get(product_id(first, 1)) is None  # no one waits for it
    second = bench.submit(product_of(first), bench.operand(matrix(), "float32", inline=False))
    child.run(second, 1)
    assert runner.uploads == 3 and bench.ledger.get(second).record.state is JobState.SUCCEEDED


def test_a_product_that_no_one_waits_for_gives_its_memory_to_the_next(
    bench: WorkerBench, runner: CopyingRunner, child: Child
) -> None:
    (first,) = chain(bench, [matrix(), matrix()])
    (other,) = chain(bench, [matrix(), matrix()])
    for job in (first, other):
        child.run(job, 1)
    second = bench.submit(product_of(first), bench.operand(matrix(), "float32", inline=False))
    child.run(second, 1)
    assert runner.uploads == 4 + 2 and bench.ledger.get(second).record.state is JobState.SUCCEEDED


@pytest.mark.parametrize("verify", ["freivalds", "off"])
def test_an_unchecked_product_is_not_kept(bench: WorkerBench, runner: CopyingRunner, child: Child, verify: str) -> None:
    jobs = chain(bench, [matrix(), matrix(), matrix()], verify=verify)
    child.run(jobs[0], 1)
    assert (runner.cache.get(product_id(jobs[0], 1)) is None) == (verify == "off")


def test_a_copy_that_is_damaged_on_the_device_is_noticed_and_dropped(
    bench: WorkerBench, runner: CopyingRunner, child: Child
) -> None:
    matrices = [matrix() for _ in range(3)]
    first, second = chain(bench, matrices)
    child.run(first, 1)
    kept = runner.cache.get(product_id(first, 1))
    assert kept is not None
    kept.copy.elements.flags.writeable = True
    flip(kept.copy.elements, position=7)
    child.run(second, 1)
    record = bench.ledger.get(second).record
    assert (record.state, record.attempt) == (JobState.QUEUED, 2)
    child.run(second, 2)  # from the store
    assert_product(bench, second, matrices[0] @ matrices[1] @ matrices[2])


def test_a_deleted_product_stays_for_the_job_that_needs_it(bench: WorkerBench) -> None:
    matrices = [matrix() for _ in range(3)]
    first, second = chain(bench, matrices)
    child = Child(bench.settings, CpuRunner(bench.settings), bench.ledger, bench.store)
    child.run(first, 1)
    bench.store.delete(product_id(first, 1), owner=ANONYMOUS)
    child.run(second, 1)
    child.heartbeat.stop()
    assert_product(bench, second, matrices[0] @ matrices[1] @ matrices[2])
    bench.store.sweep()
    assert not (bench.settings.store_dir / product_id(first, 1)).exists()


def test_a_wrong_product_is_no_operand(bench: WorkerBench) -> None:
    """It fails its check at every attempt; those that wait fail with it."""
    jobs = chain(bench, [matrix() for _ in range(4)])
    child = Child(bench.settings, FaultyRunner(bench.settings, after_product=wrong), bench.ledger, bench.store)
    child.run(jobs[0], 1)
    assert bench.ledger.get(jobs[1]).record.state is JobState.QUEUED
    child.run(jobs[0], 2)
    child.heartbeat.stop()
    types = [error.type for job in jobs if (error := bench.ledger.get(job).record.error) is not None]
    assert types == ["verification_failed", "operand_failed", "operand_failed"]


def wrong(c: Array) -> None:
    c[0, 0] += 1000


# ---- small ones ----
def test_small_products_go_from_record_to_record_and_together(bench: WorkerBench) -> None:
    a, b = matrix(8), matrix(8)
    first = bench.submit(a, b, in_record=True)
    others = [matrix(8) for _ in range(3)]
    seconds = [small_dependent(bench, first, each) for each in others]
    child = Child(bench.settings, CpuRunner(bench.settings), bench.ledger, bench.store)
    child.run(first, 1)
    child.run(seconds[0], 1)
    child.heartbeat.stop()
    for job, each in zip(seconds, others, strict=True):
        assert_product(bench, job, a @ b @ each)
        assert bench.ledger.get(job).record.batch == 3


def small_dependent(bench: WorkerBench, first: str, b: Array) -> str:
    """The product of `first` times `b`, in the record."""
    template = bench.ledger.get(bench.submit(b, b, in_record=True)).record.request
    assert isinstance(template, MatmulRequest)
    request = template.model_copy(update={"a": product_of(first, 8)})
    matrices = JobMatrices(b=pack(b.tobytes()), product_bytes=8 * 8 * 4 + 8, ttl_s=60.0)
    job = NewJob(
        owner=ANONYMOUS, queue="cpu", timeout_s=60.0, request=request, matrices=matrices, batch=batch_of(request, 60.0)
    )
    bench.ledger.submit(job, max_queued=99, max_queued_per_owner=99)
    return job.id


# ---- a real worker ----
def test_a_worker_that_dies_in_the_middle_of_a_chain(valkey: EmbeddedServer, tmp_path: Path) -> None:
    with running_worker(valkey, tmp_path, module="tests.support.workers.poisoned_worker") as bench:
        a, b = np.ones((3, poison.TAKES_2_S), np.float32), np.ones((poison.TAKES_2_S, 3), np.float32)
        first = bench.submit(a, b)
        last = first
        for _ in range(3):
            last = bench.submit(product_of(last, 3), np.eye(3, dtype=np.float32))
        bench.until_state(first, JobState.RUNNING)
        bench.stop()
        bench.start()
        job = bench.ended(last)
        assert bench.ledger.get(first).record.attempt == 2
        np.testing.assert_array_equal(bench.product(job), np.full((3, 3), poison.TAKES_2_S, np.float32))


def test_a_job_that_kills_its_workers_takes_the_chain_along(valkey: EmbeddedServer, tmp_path: Path) -> None:
    with running_worker(valkey, tmp_path, module="tests.support.workers.poisoned_worker") as bench:
        first = bench.of_depth(poison.KILLS)
        second = bench.submit(
            OperandRef(source="job", job=first, dtype="float32", shape=(3, 4)), np.ones((4, 4), np.float32)
        )
        error = bench.ended(second).record.error
        assert error is not None and error.type == "operand_failed"
        worker_lost = bench.ledger.get(first).record.error
        assert worker_lost is not None and worker_lost.type == "worker_lost"
