"""Bits that flip on a product's way through a worker: each is noticed, tried again, and nothing wrong is kept.

One child, in this process, on a real Redis, and a real worker for the whole way.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import MatrixNotFound
from jobs.formats.elements import Array
from jobs.models import ANONYMOUS, JobRecord, Verification, product_id
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.operands import OperandRef
from jobs.states import JobState
from kernels.model.numerics import Problem
from tests.support.objects import ObjectServer
from tests.support.stores import StoreBench, StoreKind
from tests.support.workers.copying import CopyingRunner, FaultyRunner, flip
from tests.support.workers.workers import WorkerBench, running_worker
from worker.check.verify import check
from worker.cpu.blas import multiply
from worker.cpu.runner import CpuRunner
from worker.device.runner import Runner
from worker.process.child import Child

A = np.random.default_rng(1).standard_normal((40, 50)).astype(np.float32)
B = np.random.default_rng(2).standard_normal((50, 60)).astype(np.float32)
UPLOAD_AGAIN = "An operand's bytes are not those that were sent; upload it again and submit a new job."


@pytest.fixture(params=["file", "redis"])
def bench(request: pytest.FixtureRequest, valkey: EmbeddedServer, tmp_path: Path) -> Iterator[WorkerBench]:
    """No worker is started: the tests are it."""
    bench = WorkerBench(valkey, tmp_path, overrides={"store": request.param})
    yield bench
    bench.client.close()


def stored(bench: WorkerBench) -> StoreBench:
    kind: StoreKind = "redis" if bench.settings.store == "redis" else "file"
    return StoreBench(kind, bench.settings, bench.client, bench.store)


def attempts(bench: WorkerBench, runner: Runner, job_id: str) -> list[JobRecord]:
    """The record after each attempt, by one child."""
    child = Child(bench.settings, runner, bench.ledger, bench.store)
    records: list[JobRecord] = []
    while not records or records[-1].state is JobState.QUEUED:
        child.run(job_id, len(records) + 1)
        child.wait_until_idle()
        records.append(bench.ledger.get(job_id).record)
    child.heartbeat.stop()
    return records


def error_of(record: JobRecord) -> str | None:
    return None if record.error is None else record.error.type


def assert_nothing_kept(bench: WorkerBench, job_id: str) -> None:
    for attempt in (1, 2):
        with pytest.raises(MatrixNotFound):
            bench.store.info(product_id(job_id, attempt), owner=ANONYMOUS)


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("verify", ["freivalds", "off"])
def test_an_operand_that_changed_in_the_store_fails_the_job(bench: WorkerBench, inline: bool, verify: str) -> None:
    job_id = bench.submit(bench.operand(A, "float32", inline=inline), B, verify=verify)
    operand = bench.ledger.get(job_id).record.operands[0].matrix
    assert operand is not None
    stored(bench).flip(1234, operand if inline or bench.settings.store == "file" else "up_")
    runs = attempts(bench, CpuRunner(bench.settings), job_id)
    assert [run.state for run in runs] == [JobState.QUEUED, JobState.FAILED]
    assert runs[-1].error is not None
    assert (runs[-1].error.type, runs[-1].error.detail) == ("operand_damaged", UPLOAD_AGAIN)
    assert_nothing_kept(bench, job_id)


@pytest.mark.parametrize("position", [8, -100, -60, -40])  # of an element, and in what is behind its digests
def test_an_operand_whose_slot_on_a_disk_changed_fails_the_job(
    valkey: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    (tmp_path / "mounts").write_text("none / ext4 rw 0 0\n")
    monkeypatch.setattr("jobs.disk.MOUNTS", tmp_path / "mounts")
    bench = WorkerBench(valkey, tmp_path, overrides={"store": "file"})
    large = np.ones((400, 400), np.float32)
    a, b = bench.operand(large, "float32"), bench.operand(large, "float32")
    assert a.matrix is not None
    length = (bench.settings.store_dir / a.matrix).stat().st_size
    stored(bench).flip(position % length, a.matrix)
    record = attempts(bench, CpuRunner(bench.settings), bench.submit(a, b))[-1]
    expected = {8: "operand_damaged", -100: None, -60: "operand_missing", -40: "operand_damaged"}[position]
    assert (record.error.type if record.error else None) == expected


@pytest.mark.parametrize("inline", [True, False])
def test_a_damaged_copy_on_a_host_is_fetched_again(
    valkey: EmbeddedServer, objects: ObjectServer, key_prefix: str, tmp_path: Path, inline: bool
) -> None:
    """The bucket has the bytes that came in."""
    bench = WorkerBench(valkey, tmp_path, overrides=objects.settings(key_prefix))
    operand = bench.operand(A, "float32", inline=inline)
    (copy,) = bench.settings.store_dir.glob(f"{operand.matrix}*")
    raw = bytearray(copy.read_bytes())
    raw[1234] ^= 1
    copy.write_bytes(raw)
    job_id = bench.submit(operand, B)
    runs = attempts(bench, CpuRunner(bench.settings), job_id)
    assert [run.state for run in runs] == [JobState.QUEUED, JobState.SUCCEEDED], runs[-1].error
    np.testing.assert_array_equal(bench.product(bench.ledger.get(job_id)), A @ B)
    bench.client.close()


def test_an_operand_that_is_fetched_damaged_fails_the_job(
    valkey: EmbeddedServer, objects: ObjectServer, key_prefix: str, tmp_path: Path
) -> None:
    """In the bucket, of which this host has no copy."""
    bench = WorkerBench(valkey, tmp_path, overrides=objects.settings(key_prefix))
    operand = bench.operand(A, "float32")
    StoreBench("objects", bench.settings, bench.client, bench.store).flip(1234)
    job_id = bench.submit(operand, B)
    runs = attempts(bench, CpuRunner(bench.settings), job_id)
    assert [run.state for run in runs] == [JobState.QUEUED, JobState.FAILED]
    assert runs[-1].error is not None and runs[-1].error.type == "operand_damaged"
    bench.client.close()


def test_a_product_that_changed_in_the_store_is_no_operand(bench: WorkerBench) -> None:
    first = bench.submit(A, B)
    assert attempts(bench, CpuRunner(bench.settings), first)[-1].state is JobState.SUCCEEDED
    name = product_id(first, 1)
    operand = OperandRef(source="matrix", matrix=name, dtype="float32", shape=(40, 60))
    second = bench.submit(operand, B.T.copy())
    assert attempts(bench, CpuRunner(bench.settings), second)[-1].state is JobState.SUCCEEDED
    stored(bench).flip(0, name)
    third = bench.submit(operand, B.T.copy())
    assert error_of(attempts(bench, CpuRunner(bench.settings), third)[-1]) == "operand_damaged"


@pytest.mark.parametrize("bench", ["file"], indirect=True)
@pytest.mark.parametrize("moment", ["before the check", "during the check"])
def test_an_operand_that_changes_under_the_worker_fails_the_attempt(
    bench: WorkerBench, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the file store, whose files are mapped. The Redis store's operands are this process's own by then."""
    job_id = bench.submit(A, B)
    operand = bench.ledger.get(job_id).record.operands[1].matrix
    assert operand is not None
    faults = iter([lambda: stored(bench).flip(1236, operand)])  # a change far below the tolerance

    def fault(*_: object) -> None:
        next(faults, lambda: None)()

    def checked(*arguments: Any) -> Verification:
        fault()
        return check(*arguments)

    if moment == "during the check":
        monkeypatch.setattr("worker.product.multiply.check", checked)
        runner: Runner = CpuRunner(bench.settings)
    else:
        runner = FaultyRunner(bench.settings, after_product=fault)
    runs = attempts(bench, runner, job_id)
    assert runs[0].state is JobState.QUEUED and error_of(runs[1]) == "operand_damaged"
    assert_nothing_kept(bench, job_id)


def test_a_product_that_changes_after_its_check_is_computed_again(bench: WorkerBench) -> None:
    faults = iter([flip])
    runner = FaultyRunner(bench.settings, after_check=lambda c: next(faults, lambda c: None)(c))
    job_id = bench.submit(A, B)
    runs = attempts(bench, runner, job_id)
    assert [run.state for run in runs] == [JobState.QUEUED, JobState.SUCCEEDED]
    with pytest.raises(MatrixNotFound):
        bench.store.info(product_id(job_id, 1), owner=ANONYMOUS)
    np.testing.assert_array_equal(bench.product(bench.ledger.get(job_id)), A @ B)


def test_a_product_that_changes_every_time_fails_the_job(bench: WorkerBench) -> None:
    job_id = bench.submit(A, B)
    last = attempts(bench, FaultyRunner(bench.settings, after_check=flip), job_id)[-1]
    assert last.state is JobState.FAILED and last.error is not None and last.error.type == "verification_failed"
    assert "changed on its way into the store" in last.error.detail
    assert_nothing_kept(bench, job_id)


# ---- copies that stay on a device ----
@pytest.fixture
def runner(bench: WorkerBench) -> CopyingRunner:
    return CopyingRunner(bench.settings)


def submit(bench: WorkerBench, **options: Any) -> tuple[str, list[str]]:
    """A job of two uploaded operands; its id and theirs."""
    a, b = (bench.operand(each, "float32", inline=False) for each in (A, B))
    return bench.submit(a, b, **options), [ref.matrix for ref in (a, b) if ref.matrix is not None]


def test_copies_are_kept_once_a_product_with_them_has_passed(bench: WorkerBench, runner: CopyingRunner) -> None:
    job_id, ids = submit(bench)
    assert attempts(bench, runner, job_id)[-1].state is JobState.SUCCEEDED
    assert all(runner.cache.get(each) for each in ids) and runner.uploads == 2
    assert attempts(bench, runner, submit(bench)[0])[-1].state is JobState.SUCCEEDED
    assert runner.uploads == 2


def test_without_a_check_nothing_new_is_kept(bench: WorkerBench, runner: CopyingRunner) -> None:
    job_id, ids = submit(bench, verify="off")
    assert attempts(bench, runner, job_id)[-1].state is JobState.SUCCEEDED
    assert not any(runner.cache.get(each) for each in ids)


def test_a_bit_that_flips_on_the_way_to_the_device_is_found_and_the_copy_not_kept(
    bench: WorkerBench, runner: CopyingRunner
) -> None:
    def damaged(elements: Array) -> Array:
        copy = elements.copy()
        flip(copy, position=1000)
        runner.upload = np.array
        return copy

    runner.upload = damaged
    job_id, _ = submit(bench)
    runs = attempts(bench, runner, job_id)
    assert [run.state for run in runs] == [JobState.QUEUED, JobState.SUCCEEDED]
    assert runner.uploads == 4
    np.testing.assert_array_equal(bench.product(bench.ledger.get(job_id)), A @ B)


def test_a_bit_that_flips_in_a_kept_copy_is_found_and_both_copies_dropped(
    bench: WorkerBench, runner: CopyingRunner
) -> None:
    first, ids = submit(bench)
    assert attempts(bench, runner, first)[-1].state is JobState.SUCCEEDED
    kept = runner.cache.get(ids[0])
    assert kept is not None
    flip(kept.copy.elements)
    job_id, _ = submit(bench)
    runs = attempts(bench, runner, job_id)
    assert [run.state for run in runs] == [JobState.QUEUED, JobState.SUCCEEDED]
    assert runner.uploads == 4
    np.testing.assert_array_equal(bench.product(bench.ledger.get(job_id)), A @ B)


def test_copies_that_gave_a_wrong_product_are_dropped(
    bench: WorkerBench, runner: CopyingRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, ids = submit(bench)
    assert attempts(bench, runner, first)[-1].state is JobState.SUCCEEDED

    def wrong(problem: Problem, a: Array, b: Array) -> Array:
        c = multiply(problem, a, b)
        c.reshape(-1)[77] += 1
        return c

    monkeypatch.setattr("tests.support.workers.copying.multiply", wrong)
    assert error_of(attempts(bench, runner, submit(bench)[0])[-1]) == "verification_failed"
    assert not any(runner.cache.get(each) for each in ids)


# ---- a worker's process ----
def test_a_damaged_operand_ends_in_a_sentence_that_says_what_to_do(valkey: EmbeddedServer, tmp_path: Path) -> None:
    with running_worker(valkey, tmp_path) as bench:
        a = bench.operand(A, "float32", inline=False)
        assert a.matrix is not None
        stored(bench).flip(1234, a.matrix)
        record = bench.ended(bench.submit(a, B)).record
        assert (record.state, record.attempt) == (JobState.FAILED, 2)
        assert record.error is not None and record.error.detail == UPLOAD_AGAIN
        again = bench.operand(A, "float32", inline=False)
        assert again.matrix == a.matrix
        job = bench.ended(bench.submit(again, B))
        np.testing.assert_array_equal(bench.product(job), A @ B)
