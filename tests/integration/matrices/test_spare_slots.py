"""A free slot that a worker makes after a large product, so that the next one need not wait for new memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from jobs.formats.elements import matrix_bytes
from jobs.matrices.digest import part_count, part_digests
from jobs.matrices.partial import slots
from jobs.matrices.slot_format import slot_length
from jobs.redis.embedded import EmbeddedServer
from tests.support.stores import LARGE, StoreBench, fresh_name, make_bench, numbers

SIZE = matrix_bytes("float32", LARGE)


@pytest.fixture
def bench(
    valkey: EmbeddedServer, key_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StoreBench]:
    monkeypatch.setattr(slots, "SPARE_FROM_BYTES", SIZE)
    bench = make_bench("slots", valkey.url, key_prefix, tmp_path)
    yield bench
    bench.client.close()


def store_product(bench: StoreBench, shape: tuple[int, int] = LARGE) -> int:
    """Its file's inode."""
    name = fresh_name()
    with bench.store.place("float32", shape) as place:
        assert place is not None
        place.elements[:] = numbers(shape)
        with bench.store.create("float32", shape, owner="ada", ttl_s=60, name=name, place=place) as writer:
            lies_there = place.elements.reshape(-1).view(np.uint8).data
            writer.fill(part_digests(lies_there, part_count(matrix_bytes("float32", shape))))
            writer.commit()
    return (bench.settings.store_dir / name).stat().st_ino


def made_ahead(bench: StoreBench) -> list[int]:
    """Lengths of the slots that come up, as a worker asks for them again and again."""
    return [memory.bytes for memory in bench.store.new_memories()]


def test_the_next_product_finds_memory_that_is_there(bench: StoreBench) -> None:
    store_product(bench)
    assert slot_length(SIZE) in made_ahead(bench)
    (spare,) = bench.free()
    inode = spare.stat().st_ino
    assert store_product(bench) == inode
    assert bench.free() == []


def test_there_is_one_at_a_time(bench: StoreBench) -> None:
    store_product(bench)
    for _ in range(3):
        made_ahead(bench)
    assert len(bench.free()) == 1


def test_none_is_made_for_smaller_products_or_where_one_is_free(bench: StoreBench) -> None:
    store_product(bench, (LARGE[0] - 1, LARGE[1]))
    made_ahead(bench)
    assert bench.free() == []
    bench.store.delete(bench.put(np.ones(LARGE, np.float32)).id, owner="ada")
    before = bench.free()
    store_product(bench)
    bench.store.delete(bench.put(np.ones(LARGE, np.float32)).id, owner="ada")
    made_ahead(bench)
    assert len(bench.free()) == len(before) == 1


def test_none_is_made_where_the_bound_of_the_store_is_near(
    valkey: EmbeddedServer, key_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "SPARE_FROM_BYTES", SIZE)
    bound = {"store_bytes": 2 * slot_length(SIZE), "store_bytes_per_key": 2 * slot_length(SIZE)}
    bench = make_bench("slots", valkey.url, key_prefix, tmp_path, **bound)
    store_product(bench)
    made_ahead(bench)
    assert bench.free() == []
    bench.client.close()
