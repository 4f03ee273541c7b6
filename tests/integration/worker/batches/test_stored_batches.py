"""Small jobs whose matrices are in the store: computed together where they wait together, each with a file of its own
for its product, and with the check that each would have alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import StoreFull, StoreUnavailable
from jobs.formats.elements import Array
from jobs.matrices.file_store import FileMatrixStore
from jobs.models import JobRecord, product_id
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from kernels.model.numerics import Problem
from tests.support.workers.copying import FaultyRunner, flip
from tests.support.workers.workers import WorkerBench
from worker.check.verify import is_direct, max_direct_batch
from worker.cpu.runner import CpuRunner
from worker.device.runner import Runner
from worker.process.child import Child
from worker.product import batch

RNG = np.random.default_rng(8)
SMALL = (70, 30, 90)


def pair(m: int, k: int, n: int) -> tuple[Array, Array]:
    """Small integers, whose products are exact."""
    a, b = (RNG.integers(-99, 99, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    return a, b


def submitted(bench: WorkerBench, *shapes: tuple[int, int, int]) -> tuple[list[str], list[tuple[Array, Array]]]:
    pairs = [pair(*shape) for shape in shapes]
    return [bench.submit(*operands, together=True) for operands in pairs], pairs


def path(bench: WorkerBench, matrix_id: str) -> Path:
    assert isinstance(bench.store, FileMatrixStore)
    return Path(bench.store.path(matrix_id))


def run(bench: WorkerBench, job_id: str, runner: Runner | None = None) -> None:
    child = Child(bench.settings, runner or CpuRunner(bench.settings), bench.ledger, bench.store)
    child.run(job_id, bench.ledger.get(job_id).record.attempt)
    child.wait_until_idle()
    child.heartbeat.stop()


def records(bench: WorkerBench, ids: Sequence[str]) -> list[JobRecord]:
    return [bench.ledger.get(job_id).record for job_id in ids]


def launched(bench: WorkerBench, ids: Sequence[str]) -> list[int | None]:
    return [record.batch for record in records(bench, ids)]


def assert_right(bench: WorkerBench, ids: Sequence[str], pairs: Sequence[tuple[Array, Array]]) -> None:
    for job_id, (a, b) in zip(ids, pairs, strict=True):
        np.testing.assert_array_equal(bench.product(bench.ledger.get(job_id)), a @ b)


def test_they_are_computed_in_one_launch_and_stored_apart(own_server: EmbeddedServer, tmp_path: Path) -> None:
    bench = WorkerBench(own_server, tmp_path)  # a Redis that holds nothing back from its file
    ids, pairs = submitted(bench, SMALL, SMALL, (80, 30, 81), SMALL)
    run(bench, ids[0])
    assert launched(bench, ids) == [4] * 4
    assert_right(bench, ids, pairs)
    files = [file.name for file in path(bench, "any").parent.iterdir() if file.is_file() and not file.is_symlink()]
    assert sorted(files) == sorted(product_id(job_id, 1) for job_id in ids)  # and no operand is left
    bench.client.close()


def test_those_of_the_store_and_of_records_go_together(bench: WorkerBench) -> None:
    pairs = [pair(*SMALL) for _ in range(3)]
    ids = [bench.submit(*operands, in_record=i == 1, together=True) for i, operands in enumerate(pairs)]
    run(bench, ids[0])
    assert launched(bench, ids) == [3] * 3
    assert_right(bench, ids, pairs)


def test_a_launch_is_bounded(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """And all launches of a claim are done, each recorded when it is."""
    problem_bytes = 4 * (70 * 30 + 30 * 90 + 70 * 90)
    monkeypatch.setattr(CpuRunner, "max_launch_bytes", 2 * problem_bytes + 1)
    ids, pairs = submitted(bench, *[SMALL] * 5)
    run(bench, ids[0])
    assert launched(bench, ids) == [2, 2, 2, 2, 1]
    assert_right(bench, ids, pairs)


def test_each_product_has_the_check_that_it_would_have_alone(bench: WorkerBench) -> None:
    """Where each element of one is computed again, so is each of all."""
    shape = (128, 128, 128)
    ids, pairs = submitted(bench, *[shape] * 6)
    run(bench, ids[0])
    problem = bench.ledger.get(ids[0]).record.request.problem  # type: ignore[union-attr]
    most = max_direct_batch(problem)
    assert 1 < most < 6 and launched(bench, ids) == [most] * most + [6 - most] * (6 - most)
    assert_right(bench, ids, pairs)


@pytest.mark.parametrize("k", [0, 1, 90, 128, 203, 204])
def test_how_many_of_a_launch_are_computed_again(k: int) -> None:
    one = Problem(m=203, n=203, k=k, dtype="float32")
    most = max_direct_batch(one)
    assert is_direct(replace(one, batch=max(1, most), a_batched=True, b_batched=True)) == (most > 0)
    assert not is_direct(replace(one, batch=most + 1, a_batched=True, b_batched=True)) or k == 0


def test_a_damaged_operand_fails_its_own_job_alone(bench: WorkerBench) -> None:
    ids, pairs = submitted(bench, *[SMALL] * 3)
    operand = bench.ledger.get(ids[1]).record.operands[0].matrix
    assert operand is not None
    damaged = bytearray(path(bench, operand).read_bytes())
    damaged[9] ^= 1
    path(bench, operand).write_bytes(damaged)
    run(bench, ids[0])
    assert [record.state.value for record in records(bench, ids)] == ["succeeded", "queued", "succeeded"]
    assert_right(bench, [ids[0], ids[2]], [pairs[0], pairs[2]])


def test_a_missing_operand_fails_its_own_job_alone(bench: WorkerBench) -> None:
    ids, pairs = submitted(bench, *[SMALL] * 3)
    operand = bench.ledger.get(ids[2]).record.operands[1].matrix
    assert operand is not None
    path(bench, operand).unlink()
    run(bench, ids[0])
    found = records(bench, ids)
    assert [record.state.value for record in found] == ["succeeded", "succeeded", "failed"]
    assert found[2].error is not None and found[2].error.type == "operand_missing"
    assert_right(bench, ids[:2], pairs[:2])


@pytest.mark.parametrize("when", ["after_product", "after_check"])
def test_a_product_that_changes_reaches_no_one(bench: WorkerBench, when: str) -> None:
    """Before its check or after it; then each is computed by itself."""
    ids, pairs = submitted(bench, *[SMALL] * 3)
    faults = iter([flip])
    fault: Any = {when: lambda c: next(faults, lambda _: None)(c)}
    run(bench, ids[0], FaultyRunner(bench.settings, **fault))
    assert next(faults, None) is None and launched(bench, ids) == [1] * 3
    assert_right(bench, ids, pairs)


def test_a_product_that_changes_on_its_way_into_the_store_reaches_no_one(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of the launch is damaged when one product is written already."""
    kept, faults = batch._packed, [1]

    def damaging(claimed: Any, product: Array, *rest: Any) -> bytes | None:
        if faults:
            faults.pop()
            product.setflags(write=True)
            flip(product)
        return kept(claimed, product, *rest)

    monkeypatch.setattr(batch, "_packed", damaging)
    ids, pairs = submitted(bench, *[SMALL] * 3)
    run(bench, ids[0])
    assert not faults and launched(bench, ids) == [1] * 3
    assert_right(bench, ids, pairs)


def test_one_that_is_called_off_during_the_launch_leaves_no_product(bench: WorkerBench) -> None:
    ids, pairs = submitted(bench, *[SMALL] * 3)
    run(bench, ids[0], FaultyRunner(bench.settings, after_product=lambda _: bench.ledger.cancel(ids[1]) and None))
    assert [record.state.value for record in records(bench, ids)] == ["succeeded", "cancelled", "succeeded"]
    assert not path(bench, product_id(ids[1], 1)).exists()
    assert_right(bench, [ids[0], ids[2]], [pairs[0], pairs[2]])


@pytest.mark.parametrize("error", [StoreFull, StoreUnavailable])
def test_a_disk_that_has_no_room_gives_all_of_them_back(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """With no attempt used up. A disk that fails is tried again for each by itself, and then is as full."""
    ids, _ = submitted(bench, *[SMALL] * 2)

    def refuse(*_: Any, **__: Any) -> None:
        raise error("no room") if error is StoreFull else StoreUnavailable("it fails", resource="disk")

    monkeypatch.setattr(bench.store, "create", refuse)
    monkeypatch.setattr("worker.process.ends.NO_ROOM_PAUSE_S", 0.01)
    run(bench, ids[0])
    assert [(record.state, record.attempt) for record in records(bench, ids)] == [(JobState.QUEUED, 2)] * 2
