"""Products that are computed where they are stored, and operands that are opened where they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import StoreFull
from jobs.formats.elements import Array
from jobs.matrices.file_store import FileMatrixStore
from jobs.models import ANONYMOUS
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from kernels.model.numerics import DTYPE_NAMES, DTYPES, DTypeName, Problem
from tests.integration.worker.test_worker_damage import assert_nothing_kept, attempts, error_of, stored
from tests.support.stores import FREE_BYTES, numbers
from tests.support.workers.copying import CopyingRunner, FaultyRunner, flip
from tests.support.workers.workers import WorkerBench
from worker.cpu.blas import multiply
from worker.cpu.runner import CpuProduct, CpuRunner

# A product of theirs is large enough for a slot.
A = np.random.default_rng(1).standard_normal((300, 200)).astype(np.float32)
B = np.random.default_rng(2).standard_normal((200, 310)).astype(np.float32)


@pytest.fixture
def bench(valkey: EmbeddedServer, tmp_path: Path) -> Iterator[WorkerBench]:
    bench = WorkerBench(
        valkey, tmp_path, overrides={"store": "file", "store_free_bytes": str(FREE_BYTES), "room_timeout_s": "0.1"}
    )
    yield bench
    bench.client.close()


@pytest.fixture
def no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products are not handed over piece by piece."""

    def handed_over(_: CpuProduct) -> Iterator[memoryview]:
        raise AssertionError("the product was copied")

    monkeypatch.setattr(CpuProduct, "chunks", handed_over)


def product_of(bench: WorkerBench, job_id: str) -> Array:
    return bench.product(bench.ledger.get(job_id))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_product_is_computed_in_its_place(bench: WorkerBench, no_copy: None, dtype: DTypeName, batch: int) -> None:
    shapes = [(600, 70), (70, 620)] if batch == 1 else [(batch, 400, 70), (batch, 70, 420)]
    a, b = (numbers(shape, dtype, seed) for seed, shape in enumerate(shapes))
    problem = Problem(shapes[0][-2], shapes[1][-1], 70, dtype, batch=batch, a_batched=batch > 1, b_batched=batch > 1)
    for _ in range(2):  # the second time in memory that has another product's elements
        job_id = bench.submit(bench.operand(a, dtype), bench.operand(b, dtype), accuracy=DTYPES[dtype].accuracy)
        assert attempts(bench, CpuRunner(bench.settings), job_id)[-1].state is JobState.SUCCEEDED
        np.testing.assert_array_equal(product_of(bench, job_id), multiply(problem, a, b))
        (slot,) = (name for name in stored(bench).kept() if name.startswith("c_"))
        bench.store.delete(slot, owner=ANONYMOUS)


def test_a_product_that_changes_in_its_place_is_computed_again(bench: WorkerBench, no_copy: None) -> None:
    faults = iter([flip])
    runner = FaultyRunner(bench.settings, after_check=lambda c: next(faults, lambda c: None)(c))
    job_id = bench.submit(A, B)
    runs = attempts(bench, runner, job_id)
    assert [run.state for run in runs] == [JobState.QUEUED, JobState.SUCCEEDED]
    np.testing.assert_array_equal(product_of(bench, job_id), A @ B)


def test_a_product_that_is_not_kept_gives_its_place_back(bench: WorkerBench, no_copy: None) -> None:
    job_id = bench.submit(A, B)
    last = attempts(bench, FaultyRunner(bench.settings, after_product=lambda c: flip(c, position=3)), job_id)[-1]
    assert last.state is JobState.FAILED and error_of(last) == "verification_failed"
    assert_nothing_kept(bench, job_id)
    assert not [name for name in stored(bench).kept() if name.endswith(".slot")]
    assert stored(bench).free()


def test_a_disk_without_room_for_the_product_fails_the_job(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise StoreFull("The disk that matrices are kept on is full.")

    job_id = bench.submit(A, B)
    monkeypatch.setattr(bench.store, "slot", full)
    last = attempts(bench, CpuRunner(bench.settings), job_id)[-1]
    assert last.state is JobState.FAILED and error_of(last) == "no_room_for_product"


# ---- operands ----
def test_an_operand_that_is_gone_is_said(bench: WorkerBench) -> None:
    gone = bench.operand(A, "float32", inline=False)
    job_id = bench.submit(gone, bench.operand(B, "float32", inline=False))
    assert isinstance(bench.store, FileMatrixStore) and gone.matrix is not None
    for file in bench.store.directory.glob(f"{gone.matrix}*"):
        file.unlink()
    assert error_of(attempts(bench, CpuRunner(bench.settings), job_id)[-1]) == "operand_missing"


def test_operands_whose_copies_are_kept_are_not_opened(bench: WorkerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, opened = CopyingRunner(bench.settings), []
    a, b = (bench.operand(each, "float32", inline=False) for each in (A, B))
    open_matrix = bench.store.open

    def watched(matrix_id: str, *arguments: Any) -> Any:
        opened.append(matrix_id)
        return open_matrix(matrix_id, *arguments)

    monkeypatch.setattr(bench.store, "open", watched)
    assert attempts(bench, runner, bench.submit(a, b))[-1].state is JobState.SUCCEEDED
    assert set(opened) == {a.matrix, b.matrix}
    opened.clear()
    job_id = bench.submit(a, b)
    assert attempts(bench, runner, job_id)[-1].state is JobState.SUCCEEDED
    assert opened == []
    np.testing.assert_array_equal(product_of(bench, job_id), A @ B)
