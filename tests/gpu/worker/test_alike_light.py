"""Light products that are alike, on a GPU: claimed together, computed in one launch, stored each for itself.

The child is in this process, so that a test can reach into a launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs.formats.elements import Array
from jobs.matrices.file_store import FileMatrixStore
from jobs.models import JobRecord, product_id
from jobs.redis.embedded import EmbeddedServer
from kernels.model.numerics import DTypeName, Problem
from tests.gpu.products import before_check
from tests.support.kernels.products import assert_right, operands
from tests.support.workers.workers import WorkerBench
from worker.process.child import Child

if TYPE_CHECKING:
    from worker.cuda.products.on_device import ProductOnDevice
    from worker.cuda.runner import CudaRunner

DTYPES: tuple[DTypeName, ...] = ("float32", "float64", "bfloat16", "int8")
Pairs = list[tuple[Array, Array]]
COUNT = 6


@pytest.fixture
def bench(valkey: EmbeddedServer) -> Iterator[WorkerBench]:
    """On a tmpfs: Linux lets no device write to the files of a disk for long."""
    with TemporaryDirectory(dir="/dev/shm") as directory:
        bench = WorkerBench(valkey, Path(directory), device="gpu:0", overrides={"jobs_under_way": "3"})
        yield bench
        bench.client.close()


def submitted(bench: WorkerBench, problem: Problem, rng: np.random.Generator, **how: Any) -> tuple[list[str], Pairs]:
    pairs = [operands(problem, rng) for _ in range(COUNT)]
    return [bench.submit(*each, problem.dtype, **how) for each in pairs], pairs


def run(bench: WorkerBench, job_ids: Sequence[str], runner: CudaRunner) -> None:
    child = Child(bench.settings, runner, bench.ledger, bench.store)
    for job_id in job_ids:
        child.run(job_id, bench.ledger.get(job_id).record.attempt)
        child.wait_until_idle()
    child.heartbeat.stop()


def records(bench: WorkerBench, ids: Sequence[str]) -> list[JobRecord]:
    return [bench.ledger.get(job_id).record for job_id in ids]


def states(bench: WorkerBench, ids: Sequence[str]) -> list[str]:
    return [record.state.value for record in records(bench, ids)]


def assert_all_right(bench: WorkerBench, problem: Problem, ids: Sequence[str], pairs: Pairs) -> None:
    for job_id, (a, b) in zip(ids, pairs, strict=True):
        assert_right(problem, a, b, bench.product(bench.ledger.get(job_id)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [16, 48, 100, 150, 256, 1024])
@pytest.mark.parametrize("inline", [True, False], ids=["for the job", "references"])
def test_those_of_a_claim_share_a_launch_where_they_gain_by_it(
    bench: WorkerBench, runner: CudaRunner, dtype: DTypeName, n: int, inline: bool, rng: np.random.Generator
) -> None:
    problem = Problem(n, n, n, dtype)
    ids, pairs = submitted(bench, problem, rng, inline=inline)
    run(bench, ids[:1], runner)
    found = records(bench, ids)
    together = n in (16, 48, 256, 1024) or (dtype == "int8" and n == 150)
    assert [record.batch for record in found] == [COUNT if together else 1] * COUNT
    assert all(record.verification is not None and record.verification.passed for record in found)
    assert (len({record.gflops for record in found}) == 1) == together, "those of the launch"
    assert all(record.timing is not None and record.timing.kernel_ms > 0 for record in found)
    assert_all_right(bench, problem, ids, pairs)


@pytest.mark.parametrize("problem", [Problem(300, 290, 310, "float32"), Problem(301, 999, 77, "int8")], ids=str)
def test_rows_that_are_padded_on_the_device(
    bench: WorkerBench, runner: CudaRunner, problem: Problem, rng: np.random.Generator
) -> None:
    ids, pairs = submitted(bench, problem, rng)
    run(bench, ids[:1], runner)
    assert [record.batch for record in records(bench, ids)] == [COUNT] * COUNT
    assert_all_right(bench, problem, ids, pairs)


def test_references_stay_on_the_device(bench: WorkerBench, runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = Problem(256, 256, 256, "float32")
    a, b = operands(problem, rng)
    refs = bench.operand(a, "float32", inline=False), bench.operand(b, "float32", inline=False)
    for _ in range(2):
        ids = [bench.submit(*refs) for _ in range(COUNT)]
        run(bench, ids[:1], runner)
        assert_all_right(bench, problem, ids, [(a, b)] * COUNT)
        kept = [runner.cache.get(ref.matrix) for ref in refs if ref.matrix]
        assert all(each is not None and each.copy.layout.batch == 1 for each in kept)


@pytest.mark.parametrize("n", [16, 100, 256, 1024])
@pytest.mark.parametrize("operand", [0, 1], ids=["a", "b"])
def test_a_wrong_operand_fails_its_own_job_alone(
    bench: WorkerBench, runner: CudaRunner, n: int, operand: int, rng: np.random.Generator
) -> None:
    problem = Problem(n, n, n, "float32")
    ids, pairs = submitted(bench, problem, rng)
    matrix = bench.ledger.get(ids[2]).record.operands[operand].matrix
    assert matrix is not None and isinstance(bench.store, FileMatrixStore)
    with open(bench.store.path(matrix), "r+b") as file:
        file.seek(9)
        (before,) = file.read(1)
        file.seek(9)
        file.write(bytes([before ^ 1]))
    run(bench, ids[:1], runner)
    others = [i for i in range(COUNT) if i != 2]
    assert states(bench, ids) == ["succeeded", "succeeded", "queued", *["succeeded"] * 3]
    assert_all_right(bench, problem, [ids[i] for i in others], [pairs[i] for i in others])
    run(bench, [ids[2]], runner)
    (record,) = records(bench, [ids[2]])
    assert record.error is not None and record.error.type == "operand_damaged"


@pytest.mark.parametrize("n", [256, 1024])
def test_one_that_is_called_off_during_the_launch_leaves_no_product(
    bench: WorkerBench, runner: CudaRunner, n: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(n, n, n, "float32")
    ids, pairs = submitted(bench, problem, rng)
    batches: list[int] = []

    def cancel(product: ProductOnDevice) -> None:
        batches.append(product._items)
        bench.ledger.cancel(ids[1])

    before_check(monkeypatch, cancel)
    run(bench, ids[:1], runner)
    others = [i for i in range(COUNT) if i != 1]
    assert batches[0] == COUNT
    assert states(bench, ids) == ["succeeded", "cancelled", *["succeeded"] * 4]
    assert isinstance(bench.store, FileMatrixStore)
    assert not Path(bench.store.path(product_id(ids[1], 1))).exists()
    assert_all_right(bench, problem, [ids[i] for i in others], [pairs[i] for i in others])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_launch_with_a_wrong_product_reaches_no_one(
    bench: WorkerBench, runner: CudaRunner, dtype: DTypeName, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then each is computed by itself."""
    problem = Problem(512, 512, 512, dtype)
    ids, pairs = submitted(bench, problem, rng)
    batches: list[int] = []

    def damage(product: ProductOnDevice) -> None:
        batches.append(product._items)
        if product._items > 1:
            product._delivered.item(3).memory.memset_async(0x7F, 64)

    before_check(monkeypatch, damage)
    run(bench, ids[:1], runner)
    assert batches[0] == COUNT and batches[-COUNT:] == [1] * COUNT
    assert [record.batch for record in records(bench, ids)] == [1] * COUNT
    assert_all_right(bench, problem, ids, pairs)


def test_launches_in_several_threads(bench: WorkerBench, runner: CudaRunner, rng: np.random.Generator) -> None:
    kinds = [Problem(n, n, n, "float32") for n in (256, 320, 384)]
    asked = [(each, *operands(each, rng)) for _ in range(4) for each in kinds]
    ids = [bench.submit(a, b) for _, a, b in asked]
    run(bench, ids[:1], runner)
    assert [record.batch for record in records(bench, ids)] == [4] * 12
    for job_id, (problem, a, b) in zip(ids, asked, strict=True):
        assert_right(problem, a, b, bench.product(bench.ledger.get(job_id)))
