"""Small jobs in the records of the ledger: computed together where they wait together, else each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import DeviceFault, JobFailed
from jobs.formats.elements import Array
from jobs.models import JobError, JobRecord, Verification
from jobs.queue import broker_prefix
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.support.workers.copying import FaultyRunner, flip
from tests.support.workers.workers import WorkerBench
from worker.check.verify import check
from worker.cpu.runner import CpuRunner
from worker.device.runner import Runner
from worker.process.child import Child
from worker.process.lease import EXIT_FAULT, LeaseKeeper

RNG = np.random.default_rng(5)


def pair(m: int = 7, k: int = 5, n: int = 9) -> tuple[Array, Array]:
    """Small integers, whose products are exact: a stale or swapped product differs in every bit that matters."""
    a, b = (RNG.integers(-99, 99, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    return a, b


def run(bench: WorkerBench, *job_ids: str, runner: Runner | None = None) -> list[JobRecord]:
    """The jobs' records once a child got a message for each, in this order."""
    child = Child(bench.settings, runner or CpuRunner(bench.settings), bench.ledger, bench.store)
    for job_id in job_ids:
        child.run(job_id, bench.ledger.get(job_id).record.attempt)
        child.wait_until_idle()
    child.heartbeat.stop()
    return [bench.ledger.get(job_id).record for job_id in job_ids]


def assert_right(bench: WorkerBench, job_id: str, operands: tuple[Array, Array]) -> None:
    with np.errstate(invalid="ignore"):  # some of OpenBLAS' kernels multiply what lies beside an infinity by 0
        expected = operands[0] @ operands[1]
    np.testing.assert_array_equal(bench.product(bench.ledger.get(job_id)), expected)


def submitted(bench: WorkerBench, count: int, **options: Any) -> tuple[list[str], list[tuple[Array, Array]]]:
    pairs = [pair() for _ in range(count)]
    return [bench.submit(*operands, in_record=True, **options) for operands in pairs], pairs


def waiting_messages(bench: WorkerBench) -> Sequence[bytes]:
    found: Any = bench.client.lrange(f"{broker_prefix(bench.settings)}cpu", 0, -1)
    return list(found)


def damage(bench: WorkerBench, job_id: str, field: str) -> None:
    """Flips a bit of a matrix in the job's record."""
    key = f"{bench.settings.key_prefix}job:{job_id}:matrices"
    found: Any = bench.client.hget(key, field)
    damaged = bytearray(found)
    damaged[9] ^= 1
    bench.client.hset(key, field, bytes(damaged))


def test_jobs_of_one_kind_are_computed_in_one_launch(bench: WorkerBench) -> None:
    ids, pairs = submitted(bench, 5)
    records = run(bench, ids[0])
    assert [bench.ledger.get(job_id).record.batch for job_id in ids] == [5] * 5
    assert all(record.state is JobState.SUCCEEDED for record in records)
    for job_id, operands in zip(ids, pairs, strict=True):
        assert_right(bench, job_id, operands)
    (own,) = waiting_messages(bench)  # the others' messages are taken back
    assert ids[0].encode() in own


def test_no_more_go_together_than_the_settings_say(valkey: EmbeddedServer, tmp_path: Path) -> None:
    bench = WorkerBench(valkey, tmp_path, overrides={"max_batch": "3"})
    ids, pairs = submitted(bench, 5)
    run(bench, ids[0], ids[3])
    assert [bench.ledger.get(job_id).record.batch for job_id in ids] == [3, 3, 3, 2, 2]
    for job_id, operands in zip(ids, pairs, strict=True):
        assert_right(bench, job_id, operands)
    bench.client.close()


@pytest.mark.parametrize(
    "other", [{"transpose_a": True}, {"verify": "off"}, {"kernel": "cpu_blas"}, {"timeout_s": 30.0}], ids=str
)
def test_jobs_that_differ_in_an_option_are_computed_apart(bench: WorkerBench, other: dict[str, Any]) -> None:
    a, b = pair(6, 6, 6)
    first = bench.submit(a, b, in_record=True)
    second = bench.submit(a, b, in_record=True, **other)
    (record,) = run(bench, first)
    assert record.batch == 1
    assert bench.ledger.get(second).record.state is JobState.QUEUED


def test_jobs_of_other_shapes_are_computed_apart(bench: WorkerBench) -> None:
    ids = [
        bench.submit(*pair(*shape), in_record=True) for shape in ((4, 5, 6), (4, 6, 5), (40, 5, 6))
    ]  # k, or far more rows
    assert [record.batch for record in run(bench, *ids)] == [1, 1, 1]


def test_what_was_called_off_before_is_not_computed(bench: WorkerBench) -> None:
    ids, pairs = submitted(bench, 3)
    bench.ledger.cancel(ids[1])
    run(bench, ids[0])
    assert [bench.ledger.get(job_id).record.batch for job_id in ids] == [2, None, 2]
    assert_right(bench, ids[2], pairs[2])


def test_a_job_called_off_during_the_launch_keeps_its_end(bench: WorkerBench) -> None:
    ids, pairs = submitted(bench, 3)

    def cancel(_: Array) -> None:
        bench.ledger.cancel(ids[1])

    run(bench, ids[0], runner=FaultyRunner(bench.settings, after_product=cancel))
    states = [bench.ledger.get(job_id).record.state.value for job_id in ids]
    assert states == ["succeeded", "cancelled", "succeeded"]
    assert_right(bench, ids[2], pairs[2])
    assert bench.ledger.get(ids[1], with_product=True).packed_product is None


@pytest.mark.parametrize("field", ["a", "b"])
def test_a_damaged_operand_fails_its_own_job_alone(bench: WorkerBench, field: str) -> None:
    ids, pairs = submitted(bench, 4)
    damage(bench, ids[2], field)
    run(bench, ids[0])
    records = [bench.ledger.get(job_id).record for job_id in ids]
    assert [record.state.value for record in records] == ["succeeded", "succeeded", "queued", "succeeded"]
    assert [record.batch for record in records] == [1, 1, None, 1]
    (again,) = run(bench, ids[2])
    assert again.error is not None and again.error.type == "operand_damaged"
    for i in (0, 1, 3):
        assert_right(bench, ids[i], pairs[i])


def test_a_wrong_product_in_a_launch_reaches_no_one(bench: WorkerBench) -> None:
    """One product of the first launch is damaged before the check: all are computed again, each by itself."""
    ids, pairs = submitted(bench, 4)
    faults = iter([flip])
    run(bench, ids[0], runner=FaultyRunner(bench.settings, after_product=lambda c: next(faults, lambda c: None)(c)))
    for job_id, operands in zip(ids, pairs, strict=True):
        assert bench.ledger.get(job_id).record.batch == 1
        assert_right(bench, job_id, operands)


def test_a_product_that_changes_after_its_check_reaches_no_one(bench: WorkerBench) -> None:
    ids, pairs = submitted(bench, 4)
    faults = iter([flip])
    run(bench, ids[0], runner=FaultyRunner(bench.settings, after_check=lambda c: next(faults, lambda c: None)(c)))
    assert next(faults, None) is None
    for job_id, operands in zip(ids, pairs, strict=True):
        assert bench.ledger.get(job_id).record.batch == 1
        assert_right(bench, job_id, operands)


def test_an_operand_that_changes_during_the_check_reaches_no_one(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far below the tolerance, in what was stacked for the launch."""
    ids, pairs = submitted(bench, 3)
    faults = [1]

    def checked(problem: Any, accuracy: Any, matrices: Any, rng: Any) -> Verification:
        verification = check(problem, accuracy, matrices, rng)
        if faults:
            faults.pop()
            stacked = matrices.elementwise.a.array
            stacked.setflags(write=True)
            stacked.view(np.uint32)[1, 0, 0] ^= 1
        return verification

    monkeypatch.setattr("worker.product.multiply.check", checked)
    run(bench, ids[0])
    assert not faults
    for job_id, operands in zip(ids, pairs, strict=True):
        assert bench.ledger.get(job_id).record.batch == 1
        assert_right(bench, job_id, operands)


@pytest.mark.parametrize("fault", [DeviceFault, JobFailed])
def test_a_fault_of_the_launch(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch, fault: type[JobFailed]) -> None:
    """After a fault of the device nothing more is tried on it: all go elsewhere. After any other, each by itself."""
    ended: list[int] = []
    monkeypatch.setattr(LeaseKeeper, "end_child", lambda _, code, __: ended.append(code))

    def broken(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr("worker.process.job_computer.multiply_batch", broken)
    ids, _ = submitted(bench, 3)
    run(bench, ids[0])
    records = [bench.ledger.get(job_id).record for job_id in ids]
    if fault is DeviceFault:
        assert ended == [EXIT_FAULT]
        assert [(record.state, record.attempt) for record in records] == [(JobState.QUEUED, 2)] * 3
        assert len(waiting_messages(bench)) == 1 + 3
    else:
        assert ended == []
        assert [(record.state, record.batch) for record in records] == [(JobState.SUCCEEDED, 1)] * 3


def test_what_failed_once_is_tried_again_alone(bench: WorkerBench) -> None:
    ids, pairs = submitted(bench, 3)
    bench.ledger.claim(ids[1], 1, worker="w", lease_s=1)
    error = DeviceFault()
    assert bench.ledger.fail(ids[1], 1, JobError(type=error.type, detail=error.detail), max_attempts=3)
    run(bench, ids[0])
    assert bench.ledger.get(ids[1]).record.state is JobState.QUEUED
    (record,) = run(bench, ids[1])
    assert (record.attempt, record.batch) == (2, 1)
    assert_right(bench, ids[1], pairs[1])


def test_operands_go_when_the_job_succeeds_and_the_product_stays(bench: WorkerBench) -> None:
    ids, _ = submitted(bench, 2)
    run(bench, ids[0])
    for job_id in ids:
        kept: Any = bench.client.hgetall(f"{bench.settings.key_prefix}job:{job_id}:matrices")
        assert [name for name, packed in kept.items() if packed] == [b"c"]


@pytest.mark.parametrize("kernel", ["auto", "cpu_blas"])
def test_jobs_of_nearly_one_shape_are_computed_in_one_launch(bench: WorkerBench, kernel: str) -> None:
    """Where the caller names no kernel. Each gets its own product, and infinity stays in its row."""
    pairs = [pair(m, 5, n) for m, n in ((7, 9), (1, 16), (16, 1), (3, 9))]
    pairs[0][0][2, 3] = np.inf
    pairs[0][1][3] = np.abs(pairs[0][1][3]) + 1
    ids = [bench.submit(*operands, in_record=True, kernel=kernel) for operands in pairs]
    run(bench, *ids)
    records = [bench.ledger.get(job_id).record for job_id in ids]
    assert {record.batch for record in records} == ({4} if kernel == "auto" else {1})
    assert [record.product.shape for record in records if record.product] == [(7, 9), (1, 16), (16, 1), (3, 9)]
    for job_id, operands in zip(ids, pairs, strict=True):
        assert_right(bench, job_id, operands)
