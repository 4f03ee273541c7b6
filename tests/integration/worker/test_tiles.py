"""Products in tiles, by a worker that may use little memory: checked, stored, cancelled, and gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from kernels.model.numerics import DTypeName, Problem
from tests.support.stores import numbers
from tests.support.workers.holding import HELD_FROM, go_on_file
from tests.support.workers.workers import WorkerBench, running_worker, until
from worker.cpu.blas import multiply

MEMORY_BYTES = 1_300_000
N = 500  # three matrices of a million bytes each


@pytest.fixture(scope="module")
def bench(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerBench]:
    """A worker that stops before its third tile, unless `go_on` is there."""
    directory = tmp_path_factory.mktemp("tiles")
    overrides = {"device_memory_bytes": str(MEMORY_BYTES), "store": "file", "max_attempts": "3"}
    with running_worker(valkey, directory, module="tests.support.workers.tiled_worker", overrides=overrides) as bench:
        yield bench


@pytest.fixture
def go_on(bench: WorkerBench) -> Iterator[Path]:
    path = go_on_file(bench.settings.store_dir)
    yield path
    path.unlink(missing_ok=True)


def tiles(bench: WorkerBench, job_id: str) -> dict[str, bytes]:
    return {name: text for name, text in bench.ledger.findings(job_id).items() if name.startswith("tile:")}


def partials(bench: WorkerBench) -> list[Path]:
    return list(bench.settings.store_dir.glob("tiles_*"))


def operands(dtype: DTypeName = "float32", batch: int = 1) -> tuple[Any, Any]:
    shape = (N, N) if batch == 1 else (batch, N, N)
    return numbers(shape, dtype), numbers(shape, dtype, 1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float64"])
def test_a_product_in_tiles_is_the_product(bench: WorkerBench, go_on: Path, dtype: DTypeName) -> None:
    go_on.touch()
    a, b = operands(dtype)
    job = bench.ended(bench.submit(a, b, dtype, kernel="cpu_blas", transpose_a=True))
    record = job.record
    assert record.state is JobState.SUCCEEDED, record.error
    np.testing.assert_array_equal(bench.product(job), multiply(Problem(N, N, N, dtype, transpose_a=True), a, b))
    assert record.why is not None and " tiles of " in record.why
    assert record.progress.done == record.progress.total > 2 and record.verification is not None
    assert record.verification.passed and len(tiles(bench, job.id)) == record.progress.total
    assert not partials(bench)


def test_a_batch_in_tiles(bench: WorkerBench, go_on: Path) -> None:
    go_on.touch()
    a, b = operands(batch=3)
    job = bench.ended(bench.submit(a, b, kernel="cpu_blas"))
    problem = Problem.in_batch(N, N, N, "float32", 3)
    np.testing.assert_array_equal(bench.product(job), multiply(problem, a, b))


def test_alpha_beta_and_c_in_tiles_also_where_an_attempt_is_killed(bench: WorkerBench, go_on: Path) -> None:
    a, b = operands()
    c = numbers((N, N), seed=2)
    job_id = bench.submit(a, b, alpha=2.0, beta=-3.0, c=bench.operand(c, "float32"))
    until(lambda: len(tiles(bench, job_id)) == HELD_FROM, timeout_s=60, what="two tiles")
    bench.child().kill()
    go_on.touch()
    job = bench.ended(job_id)
    assert (job.record.state, job.record.attempt) == (JobState.SUCCEEDED, 2), job.record.error
    assert job.record.why is not None and " tiles of " in job.record.why
    np.testing.assert_array_equal(bench.product(job), 2 * multiply(Problem(N, N, N, "float32"), a, b) - 3 * c)


def test_widened_operands_in_tiles(bench: WorkerBench, go_on: Path) -> None:
    go_on.touch()
    a, b = operands("float16")
    job = bench.ended(bench.submit(a, b, "float16", kernel="cpu_blas", accuracy="fp32", output_dtype="float32"))
    assert job.record.why is not None and " tiles of " in job.record.why, job.record.error
    wide = (each.astype(np.float32) for each in (a, b))
    np.testing.assert_array_equal(bench.product(job), multiply(Problem(N, N, N, "float32"), *wide))


def test_an_activation_is_never_in_tiles(bench: WorkerBench) -> None:
    """Nor a shorter type: such a product is computed whole."""
    a, b = operands()
    asked: list[dict[str, Any]] = [{"activation": "relu"}, {"output_dtype": "float16"}]
    for more in asked:
        job = bench.ended(bench.submit(a, b, kernel="cpu_blas", **more))
        assert job.record.why is not None and " tiles of " not in job.record.why, job.record.error
        product = multiply(Problem(N, N, N, "float32"), a, b)
        with np.errstate(over="ignore"):
            expected = np.maximum(product, 0) if "activation" in more else product.astype(np.float16)
        np.testing.assert_array_equal(bench.product(job), expected)


def test_what_is_too_deep_is_refused_with_a_sentence(bench: WorkerBench) -> None:
    deep = np.ones((2, MEMORY_BYTES // 8), np.float32)
    job = bench.ended(bench.submit(deep, deep, kernel="cpu_blas", transpose_b=True, alpha=2.0))
    assert job.record.error is not None and job.record.error.type == "out_of_device_memory"
    assert "cut k into several products" in job.record.error.detail


def test_an_attempt_goes_on_where_the_one_before_was_killed(bench: WorkerBench, go_on: Path) -> None:
    a, b = operands()
    job_id = bench.submit(a, b)
    until(lambda: len(tiles(bench, job_id)) == HELD_FROM, timeout_s=60, what="two tiles")
    progress = bench.ledger.get(job_id).record.progress
    assert (progress.done, progress.eta_s is not None) == (HELD_FROM, True)
    before = tiles(bench, job_id)
    (partial,) = partials(bench)
    written = partial.stat().st_ino
    bench.child().kill()
    go_on.touch()
    job = bench.ended(job_id)
    assert (job.record.state, job.record.attempt) == (JobState.SUCCEEDED, 2), job.record.error
    after = tiles(bench, job_id)
    assert {name: after[name] for name in before} == before and len(after) == job.record.progress.total
    np.testing.assert_array_equal(bench.product(job), multiply(Problem(N, N, N, "float32"), a, b))
    stored = [path for path in bench.settings.store_dir.glob("c_*") if path.stat().st_ino == written]
    assert stored and not partials(bench)


def test_tiles_in_memory_of_another_attempt_do_not_count(bench: WorkerBench, go_on: Path) -> None:
    """As on a host whose attempt got less far than one elsewhere, to which the job comes back."""
    a, b = operands()
    job_id = bench.submit(a, b)
    until(lambda: len(tiles(bench, job_id)) == HELD_FROM, timeout_s=60, what="two tiles")
    (partial,) = partials(bench)
    here = bytearray(partial.read_bytes())
    here[: 4 * N * N] = bytes(4 * N * N)  # none of its tiles was done
    partial.unlink()
    bench.child().kill()
    until(lambda: len(tiles(bench, job_id)) == 2 * HELD_FROM, timeout_s=60, what="two tiles elsewhere")
    (partial,) = partials(bench)
    partial.write_bytes(here)
    bench.child().kill()
    go_on.touch()
    job = bench.ended(job_id)
    assert (job.record.state, job.record.attempt) == (JobState.SUCCEEDED, 3), job.record.error
    np.testing.assert_array_equal(bench.product(job), multiply(Problem(N, N, N, "float32"), a, b))


def test_a_cancelled_product_ends_between_tiles_and_leaves_nothing(bench: WorkerBench, go_on: Path) -> None:
    job_id = bench.submit(*operands(), kernel="cpu_blas")
    until(lambda: len(tiles(bench, job_id)) == HELD_FROM, timeout_s=60, what="two tiles")
    child = bench.child().pid
    bench.ledger.cancel(job_id)
    until(lambda: not partials(bench), timeout_s=60, what="the end of the partial product")
    bench.still_works()
    assert bench.child().pid == child


def test_an_element_that_changes_before_the_end_is_noticed(bench: WorkerBench, go_on: Path) -> None:
    """After its tile passed its check: the product is not stored, and another attempt begins anew."""
    a, b = operands()
    job_id = bench.submit(a, b, kernel="cpu_blas")
    until(lambda: len(tiles(bench, job_id)) == HELD_FROM, timeout_s=60, what="two tiles")
    (partial,) = partials(bench)
    with partial.open("r+b") as file:
        first = file.read(1)[0]
        file.seek(0)
        file.write(bytes([first ^ 1]))
    go_on.touch()
    job = bench.ended(job_id)
    assert (job.record.state, job.record.attempt) == (JobState.SUCCEEDED, 2), job.record.error
    np.testing.assert_array_equal(bench.product(job), multiply(Problem(N, N, N, "float32"), a, b))
