"""Products in tiles beside an object store that is cut off: what was computed is not computed again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from jobs.models import Job
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from kernels.model.numerics import Problem
from tests.support.objects import CutOff, ObjectServer, cut_off_at_will
from tests.support.stores import numbers
from tests.support.workers.holding import HELD_FROM, go_on_file
from tests.support.workers.workers import WorkerBench, running_worker, until
from worker.cpu.blas import multiply

N = 500
PROBLEM = Problem(N, N, N, "float32")
A, B = numbers((N, N)), numbers((N, N), seed=1)


@pytest.fixture
def link(objects: ObjectServer, tmp_path: Path) -> Iterator[CutOff]:
    with cut_off_at_will(objects, tmp_path) as link:
        yield link


@pytest.fixture
def bench(valkey: EmbeddedServer, link: CutOff, key_prefix: str, tmp_path: Path) -> Iterator[WorkerBench]:
    """A worker that stops before its third tile until it may go on, and that gives jobs back without counting it."""
    settings = link.server.settings(key_prefix) | {"device_memory_bytes": "1300000", "s3_timeout_s": "0.5"}
    with running_worker(
        valkey, tmp_path, module="tests.support.workers.tiled_worker", overrides=settings | {"sweep_grace_s": "0.2"}
    ) as bench:
        yield bench


def seeds(bench: WorkerBench, job_id: str) -> list[str]:
    """Of each tile that was recorded: another seed is another computation."""
    return [name.split(":")[1] for name in bench.ledger.findings(job_id) if name.startswith("tile:")]


def held(bench: WorkerBench) -> str:
    """A job whose first tiles are there."""
    job_id = bench.submit(A, B, kernel="cpu_blas")
    until(lambda: len(seeds(bench, job_id)) == HELD_FROM, timeout_s=60, what="two tiles")
    return job_id


def attempt(bench: WorkerBench, job_id: str, number: int) -> None:
    """Waits until the attempts before it are over."""
    try:
        until(lambda: bench.ledger.get(job_id).record.attempt >= number, timeout_s=60, what=f"attempt {number}")
    except TimeoutError as error:
        error.add_note(f"{bench.ledger.get(job_id)}\n{bench.log()}")
        raise


def is_right(bench: WorkerBench, job: Job) -> None:
    assert job.record.state is JobState.SUCCEEDED, (job.record.error, bench.log())
    np.testing.assert_array_equal(bench.product(job), multiply(PROBLEM, A, B))
    recorded = seeds(bench, job.id)
    assert len(set(recorded)) == 1 and len(recorded) == job.record.progress.total, "no tile was computed twice"


def test_a_product_that_could_not_be_sent_is_not_computed_again(bench: WorkerBench, link: CutOff) -> None:
    job_id = held(bench)
    link.cut()
    go_on_file(bench.settings.store_dir).touch()
    attempt(bench, job_id, 2)
    link.mend()
    is_right(bench, bench.ended(job_id))


def test_tiles_outlast_operands_that_cannot_be_fetched(bench: WorkerBench, link: CutOff) -> None:
    """The worker is killed, the host has no copies of the operands any more, and the store is away."""
    job_id = held(bench)
    link.cut()
    for copy in bench.settings.store_dir.glob("op_*"):
        copy.unlink()
    bench.child().kill()
    go_on_file(bench.settings.store_dir).touch()
    attempt(bench, job_id, 3)
    link.mend()
    is_right(bench, bench.ended(job_id))
