"""Small matrices that a worker's store keeps mapped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import MatrixDamaged, MatrixNotFound
from jobs.formats.elements import Array
from jobs.matrices import file_lock, file_source
from jobs.matrices.factory import make_matrix_store
from jobs.matrices.file_source import KEPT_BYTES
from jobs.matrices.file_store import FileMatrixStore
from jobs.redis.embedded import EmbeddedServer
from tests.support.stores import StoreBench, fresh_name, make_bench, numbers

SHAPE = (16, 16)


@pytest.fixture
def bench(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> Iterator[StoreBench]:
    bench = make_bench("file", valkey.url, key_prefix, tmp_path)
    yield bench
    bench.client.close()


@pytest.fixture
def worker(bench: StoreBench) -> FileMatrixStore:
    store = make_matrix_store(bench.settings, bench.client, keeps_maps=True)
    assert isinstance(store, FileMatrixStore)
    return store


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of files that were opened."""
    paths: list[str] = []
    open_file = file_lock.open_file

    def noted(path: str, *flags: Any) -> Any:
        paths.append(path)
        return open_file(path, *flags)

    monkeypatch.setattr(file_source, "open_file", noted)
    return paths


def read(store: FileMatrixStore, matrix_id: str, shape: tuple[int, ...] = SHAPE) -> Array:
    with store.open(matrix_id, "float32", shape) as stored:
        stored.verify()
        return np.array(stored.elements)


def test_one_that_was_open_is_not_opened_again(bench: StoreBench, worker: FileMatrixStore, opened: list[str]) -> None:
    matrix = bench.put(numbers(SHAPE)).id
    for _ in range(3):
        np.testing.assert_array_equal(read(worker, matrix), numbers(SHAPE))
    assert len(opened) == 1


@pytest.mark.parametrize("is_named", [True, False])
def test_others_are_opened_each_time(
    bench: StoreBench, worker: FileMatrixStore, opened: list[str], is_named: bool
) -> None:
    """What a name stands for may change; and a large one is cheap beside its product."""
    shape = SHAPE if is_named else (1, KEPT_BYTES // 4 + 1)
    matrix = bench.put(numbers(shape), name=fresh_name() if is_named else None).id
    for _ in range(2):
        np.testing.assert_array_equal(read(worker, matrix, shape), numbers(shape))
    assert len(opened) == 2


def test_an_api_process_keeps_none(bench: StoreBench, opened: list[str]) -> None:
    store, matrix = make_matrix_store(bench.settings, bench.client), bench.put(numbers(SHAPE)).id
    assert isinstance(store, FileMatrixStore)
    read(store, matrix)
    read(store, matrix)
    assert len(opened) == 2


def test_one_that_was_deleted_is_gone(bench: StoreBench, worker: FileMatrixStore) -> None:
    matrix = bench.put(numbers(SHAPE)).id
    read(worker, matrix)
    bench.store.delete(matrix, owner="ada")
    with pytest.raises(MatrixNotFound):
        read(worker, matrix)
    assert bench.put(numbers(SHAPE)).id == matrix
    np.testing.assert_array_equal(read(worker, matrix), numbers(SHAPE))


def test_damage_is_seen_and_ends_when_it_comes_again(bench: StoreBench, worker: FileMatrixStore) -> None:
    matrix = bench.put(numbers(SHAPE)).id
    read(worker, matrix)
    (name,) = bench.kept()
    with open(bench.settings.store_dir / name, "r+b") as file:
        file.write(b"\xff")
    with pytest.raises(MatrixDamaged):
        read(worker, matrix)
    assert bench.put(numbers(SHAPE)).id == matrix
    np.testing.assert_array_equal(read(worker, matrix), numbers(SHAPE))


def test_the_oldest_go(
    bench: StoreBench, worker: FileMatrixStore, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_source, "MAX_KEPT", 2)
    matrices = [bench.put(numbers(SHAPE) + each).id for each in range(3)]
    for matrix in matrices:
        read(worker, matrix)
    for matrix in reversed(matrices):
        read(worker, matrix)
    assert len(opened) == 4
