"""The way of matrices between the store's slots and the GPU: registered memory, copies by DMA, digests read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs.errors import OperandDamaged
from jobs.formats.elements import Array
from jobs.matrices.interface import MatrixInfo, StoredMatrix
from jobs.redis.embedded import EmbeddedServer
from kernels.model.numerics import OWN_ACCURACY, DTypeName, Problem
from tests.gpu.products import choice
from tests.support.kernels.products import operands
from tests.support.stores import StoreBench, fresh_name, make_bench
from worker.check.verify import check
from worker.device.operands import StoredOperand
from worker.device.runner import gathered

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

LARGE = Problem(1200, 1001, 903, "float32")  # rows are padded on the device
DENSE = Problem(1024, 1024, 1024, "float32")


@pytest.fixture
def bench(valkey: EmbeddedServer, key_prefix: str) -> Iterator[StoreBench]:
    """On a tmpfs: Linux lets no device write to the files of a disk for long."""
    with TemporaryDirectory(dir="/dev/shm") as directory:
        bench = make_bench("slots", valkey.url, key_prefix, Path(directory))
        yield bench
        bench.client.close()


@pytest.fixture
def registered(runner: CudaRunner, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Addresses of what is registered now. That it can be is the point of these tests, so a refusal fails them."""
    locks = runner._page_locks
    lock = locks.lock

    def strict(memory: Any) -> bool:
        assert memory is None or lock(memory), "the driver refused to register a slot"
        return memory is not None

    monkeypatch.setattr(locks, "lock", strict)
    return locks._locked


def stored(bench: StoreBench, info: MatrixInfo, opened: Callable[[str], None] = lambda _: None) -> StoredOperand:
    """As a worker has it; `opened` is told when it is opened."""

    def open_now() -> StoredMatrix:
        opened(info.id)
        with bench.store.open(info.id, info.dtype, info.shape) as matrix:
            return matrix

    return StoredOperand(info.shape, open_now, info.id)


def computed(runner: CudaRunner, bench: StoreBench, problem: Problem, a: StoredOperand, b: StoredOperand) -> MatrixInfo:
    """A product of `naive`, checked, stored where it has its place."""
    shape, dtype, name = problem.product_shape, problem.product_dtype, fresh_name()
    naive = choice(runner, "naive", problem)
    with bench.store.place(dtype, shape) as place, runner.compute(problem, naive, a, b, place) as product:
        assert place is not None
        rng = np.random.default_rng()
        assert check(problem, naive.kernel.accuracy[problem.dtype], product.matrices, rng).passed
        product.verify_operands()
        product.keep_operands()
        pieces = np.frombuffer(gathered(product.chunks()), np.uint8)
        with bench.store.create(dtype, shape, owner="ada", ttl_s=60, name=name, place=place) as writer:
            product.store(writer)
            assert writer.digest == product.digest
            info = writer.commit()
        assert product.measured.d2h_ms > 0
    np.testing.assert_array_equal(bench.get(info).reshape(-1).view(np.uint8), pieces)
    return info


@pytest.mark.parametrize("dtype", OWN_ACCURACY)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("columns", [601, 640])
def test_what_lies_in_the_store_is_the_product(
    runner: CudaRunner,
    registered: set[int],
    bench: StoreBench,
    dtype: DTypeName,
    batch: int,
    columns: int,
    rng: np.random.Generator,
) -> None:
    problem = Problem(700, columns, 503, dtype, batch=batch, a_batched=batch > 1, b_batched=batch > 1)
    a, b = (stored(bench, bench.put(each)) for each in operands(problem, rng))
    computed(runner, bench, problem, a, b)
    assert registered


@pytest.mark.parametrize("problem", [LARGE, DENSE], ids=["padded", "dense"])
def test_slots_are_registered_once_and_operands_opened_once(
    runner: CudaRunner, registered: set[int], bench: StoreBench, problem: Problem, rng: np.random.Generator
) -> None:
    infos, opened = [bench.put(each) for each in operands(problem, rng)], list[str]()
    seen: set[frozenset[int]] = set()
    before = set(registered)  # by other tests, whose stores may not be gone yet
    for _ in range(10):
        a, b = (stored(bench, info, opened.append) for info in infos)
        info = computed(runner, bench, problem, a, b)
        del a, b
        bench.store.delete(info.id, owner="ada")
        seen.add(frozenset(registered - before))
    assert sorted(opened) == sorted(info.id for info in infos)
    assert len(seen) == 1  # one slot, for ten products


@pytest.mark.parametrize("problem", [LARGE, Problem(700, 768, 1024, "float32")], ids=["after its check", "behind it"])
def test_a_product_that_is_damaged_on_its_way_is_noticed(
    problem: Problem,
    runner: CudaRunner,
    registered: set[int],
    bench: StoreBench,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import cupy

    from worker.cuda.digests import copy_back
    from worker.cuda.memory import download

    places: list[Array] = []

    def damaged(matrix: Any, address: int, watch: Any, arrives: Callable[[int], None]) -> None:
        def changed(end: int) -> None:
            cupy.cuda.get_current_stream().synchronize()
            places[0].reshape(-1).view(np.uint8)[end - 1] ^= 1
            arrives(end)

        download(matrix, address, watch, changed)

    monkeypatch.setattr(copy_back, "download", damaged)
    a, b = (stored(bench, bench.put(each)) for each in operands(problem, rng))
    naive = choice(runner, "naive", problem)
    with bench.store.place("float32", problem.product_shape) as place:
        assert place is not None
        places.append(place.elements)
        name = fresh_name()
        with (
            runner.compute(problem, naive, a, b, place) as product,
            bench.store.create(
                "float32", problem.product_shape, owner="ada", ttl_s=60, name=name, place=place
            ) as writer,
        ):
            product.store(writer)
            assert writer.digest != product.digest


def test_a_slot_that_changed_before_the_upload_is_found(
    runner: CudaRunner, registered: set[int], bench: StoreBench, rng: np.random.Generator
) -> None:
    infos = [bench.put(each) for each in operands(LARGE, rng)]
    bench.flip(1234, infos[1].id)
    a, b = (stored(bench, info) for info in infos)
    with runner.compute(LARGE, choice(runner, "naive", LARGE), a, b) as product, pytest.raises(OperandDamaged):
        product.verify_operands()


def test_suspicious_rows_are_judged_without_opening_operands_that_are_kept(
    runner: CudaRunner, registered: set[int], bench: StoreBench, rng: np.random.Generator
) -> None:
    """Copies are kept, and rows with a NaN are computed again on the device."""
    pair = operands(LARGE, rng)
    pair[0][17, 5] = np.nan
    infos, opened = [bench.put(each) for each in pair], list[str]()
    computed(runner, bench, LARGE, *(stored(bench, info) for info in infos))
    computed(runner, bench, LARGE, *(stored(bench, info, opened.append) for info in infos))
    assert not opened


def test_where_registering_is_refused_products_are_right_all_the_same(
    runner: CudaRunner, bench: StoreBench, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner._page_locks, "lock", lambda memory: False)
    computed(runner, bench, LARGE, *(stored(bench, bench.put(each)) for each in operands(LARGE, rng)))
