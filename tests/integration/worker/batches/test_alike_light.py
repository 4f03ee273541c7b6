"""Light products that a claim takes along and that are alike: one launch, whose operands are stacked here or, as on a
GPU, by the device, and whose products are stored apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from jobs.errors import DeviceFault, StoreFull
from jobs.formats.elements import Array
from jobs.models import product_id
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from tests.integration.worker.batches.test_stored_batches import (
    SMALL,
    assert_right,
    launched,
    pair,
    path,
    records,
    run,
)
from tests.support.played.stacking import StackingCpu
from tests.support.workers.copying import FaultyRunner, flip
from tests.support.workers.workers import WorkerBench, running_worker
from worker.check.verify import max_direct_batch
from worker.cpu.runner import CpuRunner
from worker.process.lease import EXIT_FAULT, LeaseKeeper

RNG = np.random.default_rng(17)
SLOT = (256, 30, 256)  # of a product that has a place
Pairs = list[tuple[Array, Array]]
TIMEOUT_S = 60.0


def submitted(bench: WorkerBench, *shapes: tuple[int, int, int], **options: Any) -> tuple[list[str], Pairs]:
    pairs = [pair(*shape) for shape in shapes]
    return [bench.submit(*operands, **options) for operands in pairs], pairs


def ends(bench: WorkerBench, ids: Sequence[str]) -> list[str]:
    return [record.state.value for record in records(bench, ids)]


@pytest.fixture(params=[StackingCpu, FaultyRunner], ids=["on the device", "here"])
def make(request: pytest.FixtureRequest) -> Any:
    """Makes a runner."""
    return request.param


@pytest.mark.parametrize(
    ("make", "shape"),
    [(StackingCpu, SMALL), (StackingCpu, SLOT), (FaultyRunner, SMALL)],
    ids=["on the device, in files", "on the device, in slots", "here"],
)
def test_they_are_computed_in_one_launch_and_stored_apart(bench: WorkerBench, make: Any, shape: Any) -> None:
    ids, pairs = submitted(bench, *[shape] * 4)
    runner = make(bench.settings)
    run(bench, ids[0], runner)
    assert launched(bench, ids) == [4] * 4
    assert_right(bench, ids, pairs)
    if isinstance(runner, StackingCpu):
        assert runner.launches == [4]
    times = {(record.timing.kernel_ms, record.gflops) for record in records(bench, ids) if record.timing}
    assert len(times) == 1, "those of the launch"


def test_operands_that_are_references_to_stored_matrices(
    bench: WorkerBench, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that several jobs name is opened once."""
    opened, open_matrix = list[str](), bench.store.open

    def noted(matrix_id: str, *about: Any) -> Any:
        opened.append(matrix_id)
        return open_matrix(matrix_id, *about)

    monkeypatch.setattr(bench.store, "open", noted)
    a, b = pair(*SMALL)
    refs = bench.operand(a, "float32", inline=False), bench.operand(b, "float32", inline=False)
    other = pair(*SMALL)[0]
    ids = [
        bench.submit(*refs),
        bench.submit(bench.operand(other, "float32", inline=False), refs[1]),
        bench.submit(*refs),
    ]
    run(bench, ids[0], make(bench.settings))
    assert launched(bench, ids) == [3] * 3 and len(opened) == len(set(opened)) == 3
    assert_right(bench, ids, [(a, b), (other, b), (a, b)])


def test_only_what_is_alike_shares_a_launch(bench: WorkerBench, make: Any) -> None:
    """Two kinds, and others that are alone, in the order in which they were asked for. Each is right."""
    pairs = [
        pair(*shape) for shape in (SMALL, (7, 5, 9), SMALL, (7, 5, 9), (71, 30, 90), SMALL, (90, 30, 90), (70, 31, 90))
    ]
    ids = [bench.submit(*operands) for operands in pairs]
    more: Pairs = [pair(*SMALL), pair(*SMALL), pair(*SMALL)]
    ids += [bench.submit(*more[0], verify="off"), bench.submit(*more[1], kernel="cpu_blas")]
    ids += [bench.submit(*more[2], timeout_s=30.0)]
    run(bench, ids[0], make(bench.settings))
    assert launched(bench, ids) == [3, 2, 3, 2, 1, 3, 1, 1, 1, 1, 1]
    assert_right(bench, ids, [*pairs, *more])


@pytest.mark.parametrize(
    "options",
    [{"alpha": 2.0}, {"reproducible": True}, {"tolerance": 1e-3}, {"output_dtype": "float16"}, {"activation": "relu"}],
    ids=lambda options: next(iter(options)),
)
def test_what_is_no_plain_product_is_computed_by_itself(bench: WorkerBench, options: dict[str, Any]) -> None:
    ids, _ = submitted(bench, *[SMALL] * 3, **options)
    run(bench, ids[0], StackingCpu(bench.settings))
    assert ends(bench, ids) == ["succeeded"] * 3 and launched(bench, ids) == [1] * 3


def test_a_launch_is_bounded(bench: WorkerBench, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    problem_bytes = 4 * (70 * 30 + 30 * 90 + 70 * 90)
    monkeypatch.setattr(make, "max_launch_bytes", 2 * problem_bytes + 1)
    ids, pairs = submitted(bench, *[SMALL] * 5)
    run(bench, ids[0], make(bench.settings))
    assert launched(bench, ids) == [2, 2, 2, 2, 1]
    assert_right(bench, ids, pairs)


def test_each_product_has_the_check_that_it_would_have_alone(bench: WorkerBench) -> None:
    ids, pairs = submitted(bench, *[(128, 128, 128)] * 6)
    run(bench, ids[0], StackingCpu(bench.settings))
    request: Any = bench.ledger.get(ids[0]).record.request
    most = max_direct_batch(request.problem)
    assert launched(bench, ids) == [most] * most + [6 - most] * (6 - most)
    assert_right(bench, ids, pairs)


def test_on_a_cpu_larger_ones_are_computed_one_by_one(bench: WorkerBench) -> None:
    ids, pairs = submitted(bench, *[(80, 70, 75)] * 3)
    run(bench, ids[0], CpuRunner(bench.settings))
    assert launched(bench, ids) == [1] * 3
    assert_right(bench, ids, pairs)


def test_without_batches_each_is_computed_by_itself(valkey: EmbeddedServer, tmp_path: Path) -> None:
    bench = WorkerBench(valkey, tmp_path, overrides={"max_batch": "1"})
    ids, _ = submitted(bench, SMALL, SMALL)
    run(bench, ids[0], StackingCpu(bench.settings))
    assert ends(bench, ids) == ["succeeded", "queued"]
    bench.client.close()


def test_a_damaged_operand_fails_its_own_job_alone(bench: WorkerBench, make: Any) -> None:
    ids, pairs = submitted(bench, *[SMALL] * 3)
    operand = bench.ledger.get(ids[1]).record.operands[0].matrix
    assert operand is not None
    damaged = bytearray(path(bench, operand).read_bytes())
    damaged[9] ^= 1
    path(bench, operand).write_bytes(damaged)
    run(bench, ids[0], make(bench.settings))
    assert ends(bench, ids) == ["succeeded", "queued", "succeeded"]
    assert_right(bench, [ids[0], ids[2]], [pairs[0], pairs[2]])


def test_a_missing_operand_fails_its_own_job_alone(bench: WorkerBench, make: Any) -> None:
    ids, pairs = submitted(bench, *[SMALL] * 3)
    operand = bench.ledger.get(ids[2]).record.operands[1].matrix
    assert operand is not None
    path(bench, operand).unlink()
    run(bench, ids[0], make(bench.settings))
    assert ends(bench, ids) == ["succeeded", "succeeded", "failed"]
    assert_right(bench, ids[:2], pairs[:2])


@pytest.mark.parametrize("when", ["after_product", "after_check"])
def test_a_product_that_changes_reaches_no_one(bench: WorkerBench, make: Any, when: str) -> None:
    """Before its check or after it; then each is computed by itself."""
    ids, pairs = submitted(bench, *[SMALL] * 3)
    faults = iter([flip])
    fault: Any = {when: lambda c: next(faults, lambda _: None)(c)}
    run(bench, ids[0], make(bench.settings, **fault))
    assert next(faults, None) is None and launched(bench, ids) == [1] * 3
    assert_right(bench, ids, pairs)


def test_one_that_is_called_off_during_the_launch_leaves_no_product(bench: WorkerBench, make: Any) -> None:
    ids, pairs = submitted(bench, *[SMALL] * 3)
    run(bench, ids[0], make(bench.settings, after_product=lambda _: bench.ledger.cancel(ids[1]) and None))
    assert ends(bench, ids) == ["succeeded", "cancelled", "succeeded"]
    assert not path(bench, product_id(ids[1], 1)).exists()
    assert_right(bench, [ids[0], ids[2]], [pairs[0], pairs[2]])


@pytest.mark.parametrize("method", ["create", "place"])
def test_a_store_that_has_no_room_gives_all_of_them_back(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    ids, _ = submitted(bench, *[SMALL] * 2)

    def refuse(*_: Any, **__: Any) -> None:
        raise StoreFull("no room")

    monkeypatch.setattr(bench.store, method, refuse)
    monkeypatch.setattr("worker.process.ends.NO_ROOM_PAUSE_S", 0.01)
    run(bench, ids[0], StackingCpu(bench.settings))
    assert [(record.state, record.attempt) for record in records(bench, ids)] == [(JobState.QUEUED, 2)] * 2


def test_after_a_fault_of_the_device_all_of_a_launch_run_again(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(LeaseKeeper, "end_child", lambda _, code, __: ended.append(code))

    def fault(_: Array) -> None:
        raise DeviceFault

    ids, _ = submitted(bench, *[SMALL] * 3)
    run(bench, ids[0], StackingCpu(bench.settings, after_product=fault))
    assert ended == [EXIT_FAULT]
    assert [(record.state, record.attempt) for record in records(bench, ids)] == [(JobState.QUEUED, 2)] * 3


def test_launches_overlap(bench: WorkerBench) -> None:
    """What follows the check of each waits for the other's."""
    barrier = Barrier(2)
    ids, pairs = submitted(bench, SMALL, SMALL, (7, 5, 9), (7, 5, 9))
    run(bench, ids[0], StackingCpu(bench.settings, after_check=lambda _: barrier.wait(TIMEOUT_S)))
    assert launched(bench, ids) == [2] * 4 and not barrier.broken
    assert_right(bench, ids, pairs)


def test_a_worker_s_batches_of_stored_operands(valkey: EmbeddedServer, tmp_path: Path) -> None:
    """A real one, which finds them all waiting."""
    bench = WorkerBench(valkey, tmp_path)
    shapes = [(40, 50, 60), (16, 16, 16), (40, 50, 60), (40, 51, 60)] * 6
    ids, pairs = submitted(bench, *shapes)
    bench.client.close()
    with running_worker(valkey, tmp_path, overrides={"key_prefix": bench.settings.key_prefix}) as running:
        sizes = [running.ended(job_id).record.batch for job_id in ids]
        assert max(size or 0 for size in sizes) > 1
        assert_right(running, ids, pairs)
