"""What a matrix store keeps, how much and how long, and what it says where it cannot: the same tests on both stores."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from jobs.errors import BodyTooLarge, MatrixNotFound, StoreFull, StoreUnavailable
from jobs.matrices.factory import bounds_of
from jobs.matrices.index import MIN_CHARGE_BYTES
from jobs.matrices.indexed_store import STEP_BYTES
from jobs.matrices.interface import MatrixWriter
from jobs.models import ANONYMOUS
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from tests.support.prompt import within
from tests.support.servers import DURABLE
from tests.support.stores import LARGE, MakeStores, StoreBench, fresh_name, nothing_is_left, numbers


# ---- bounds ----
def test_the_bound_on_all_bytes(make_stores: MakeStores) -> None:
    stores = make_stores(store_bytes=12_800)
    kept = stores.put(numbers((64, 32)), owner="bob")
    with pytest.raises(StoreFull, match="The store has no room for 8192 more bytes: 8192 of 12800 are used"):
        stores.put(numbers((64, 32), seed=1))
    with pytest.raises(StoreFull):
        stores.put(numbers((64, 32), seed=1), name=fresh_name())
    stores.store.check_room(4608, owner="ada")
    with pytest.raises(StoreFull):
        stores.store.check_room(4609, owner="ada")
    stores.put(numbers((36, 32)))
    stores.store.delete(kept.id, owner="bob")
    stores.put(numbers((64, 32), seed=1))
    assert stores.store.used_bytes() == 12_800


def test_the_bound_on_one_owners_bytes(make_stores: MakeStores) -> None:
    stores = make_stores(store_bytes_per_key=12_800)
    shared = numbers((64, 32))
    stores.put(shared, owner="bob")
    stores.put(numbers((64, 32), seed=1))
    with pytest.raises(StoreFull, match="This API key has no room for 8192 more bytes: 8192 of 12800 are used"):
        stores.put(shared)  # kept once, but charged to each
    with pytest.raises(StoreFull):
        stores.store.check_room(4609, owner="ada")
    stores.store.check_room(4608, owner="ada")
    assert stores.store.used_bytes(owner="ada") == 8192
    assert len(stores.kept()) == 2


def test_one_key_does_not_fill_the_store() -> None:
    """A share of it, where nothing is said; an open server has one owner."""
    bounds = bounds_of(Settings())
    assert bounds.of("ada") == bounds.all_bytes // 4
    assert bounds.of(ANONYMOUS) == bounds.all_bytes
    said = bounds_of(Settings(store_bytes_per_key=100))
    assert said.of("ada") == said.of(ANONYMOUS) == 100


@pytest.mark.parametrize("shape", [(0, 7), (1, 1), (32, 32)])
def test_the_least_that_a_matrix_is_charged(make_stores: MakeStores, shape: tuple[int, int]) -> None:
    """Its books and its file take some room too, also where it has no elements."""
    stores = make_stores(store_bytes=2 * MIN_CHARGE_BYTES, store_bytes_per_key=MIN_CHARGE_BYTES)
    infos = [stores.put(numbers(shape), owner=owner, name=fresh_name()) for owner in ("ada", "bob")]
    assert stores.store.used_bytes(owner="ada") == stores.store.used_bytes(owner="bob") == MIN_CHARGE_BYTES
    for owner in ("ada", "eve"):
        with pytest.raises(StoreFull, match=r"no room for 4096 more bytes: (4096 of 4096|8192 of 8192) are used"):
            stores.put(numbers(shape), owner=owner, name=fresh_name())
        with pytest.raises(StoreFull):
            stores.store.check_room(0, owner=owner)
    for info, owner in zip(infos, ("ada", "bob"), strict=True):
        stores.store.delete(info.id, owner=owner)
    assert nothing_is_left(stores)


SLOW = (STEP_BYTES // 256, 200)  # of float32: a little over three steps


def test_room_is_accepted_as_elements_come(make_stores: MakeStores) -> None:
    """Whoever promises much and sends little keeps no one else out."""
    size = SLOW[0] * SLOW[1] * 4
    stores = make_stores(store_bytes=size + STEP_BYTES)
    whole = numbers(SLOW)
    for name in (fresh_name(),) if stores.kind == "objects" else (None, fresh_name()):
        writers = [create_slow(stores, name and fresh_name()) for _ in range(2)]
        for writer in writers:
            writer.write(bytes(70_000))
        assert stores.store.used_bytes() == stores.store.used_bytes(owner="ada") == 2 * STEP_BYTES
        for writer in writers:
            writer.abort()
        assert stores.store.used_bytes() == 0
        with create_slow(stores, name) as writer:
            writer.write(whole.tobytes())
            info = writer.commit()
        assert stores.store.used_bytes() == stores.store.used_bytes(owner="ada") == size
        np.testing.assert_array_equal(stores.get(info), whole)
        stores.store.delete(info.id, owner="ada")
        assert stores.store.used_bytes() == 0 and not stores.kept()


def create_slow(stores: StoreBench, name: str | None) -> MatrixWriter:
    return stores.store.create("float32", SLOW, owner="ada", ttl_s=60, name=name, comes_slowly=True)


@pytest.mark.parametrize("bound", ["store_bytes", "store_bytes_per_key"])
def test_what_could_never_fit_is_refused_at_once(make_stores: MakeStores, bound: str) -> None:
    size = SLOW[0] * SLOW[1] * 4
    stores = make_stores(**{bound: size - 1})
    with pytest.raises(StoreFull, match=f"no room for {size} more bytes"):
        create_slow(stores, None)
    assert stores.store.used_bytes() == 0


def test_room_that_others_took_meanwhile_is_missed_when_it_is_needed(make_stores: MakeStores) -> None:
    size = SLOW[0] * SLOW[1] * 4
    stores = make_stores(store_bytes=size + STEP_BYTES)
    first, second = create_slow(stores, None), create_slow(stores, fresh_name())
    first.write(bytes(size))
    with pytest.raises(StoreFull, match="The store has no room"):
        second.write(bytes(size))
    second.abort()
    first.commit()
    assert stores.store.used_bytes() == size


def test_the_bounds_hold_while_many_write(make_stores: MakeStores) -> None:
    stores = make_stores(store_bytes=10 * 8192)

    def put(seed: int) -> bool:
        try:
            stores.put(numbers((64, 32), seed=seed), name=fresh_name())
        except StoreFull:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(put, range(40))) == 10
    assert stores.store.used_bytes() == 81_920
    assert len(stores.kept()) == 10


def test_the_bound_on_one_matrix(make_stores: MakeStores) -> None:
    stores = make_stores(max_matrix_bytes=64)
    stores.put(numbers((4, 4)))
    with pytest.raises(BodyTooLarge, match="65 bytes; 64 are the most"):
        stores.store.create("int8", (65, 1), owner="ada", ttl_s=60)
    with pytest.raises(BodyTooLarge):
        stores.store.create("float64", (2**40, 2**40), owner="ada", ttl_s=60, name=fresh_name())


# ---- time ----
def wait_until_gone(stores: StoreBench, matrix_id: str) -> None:
    deadline = time.monotonic() + 60
    with suppress(MatrixNotFound):
        while time.monotonic() < deadline:
            stores.store.info(matrix_id, owner="ada")
            time.sleep(0.005)


@pytest.mark.parametrize("name", [None, "op_" + "7" * 32])
def test_what_has_had_its_time_is_not_found_and_then_swept(stores: StoreBench, name: str | None) -> None:
    info = stores.put(numbers(LARGE), ttl_s=0.05, name=name)
    assert info.expires_at - info.created_at < 60
    other = stores.put(numbers((36, 32)))
    wait_until_gone(stores, info.id)
    assert len(stores.kept()) > 1
    for look in (
        lambda: stores.store.info(info.id, owner="ada"),
        lambda: stores.store.touch(info.id, owner="ada", ttl_s=60),
        lambda: stores.store.delete(info.id, owner="ada"),
    ):
        with pytest.raises(MatrixNotFound):
            look()
    assert stores.store.sweep() == 1
    assert stores.store.sweep() == 0
    assert stores.store.used_bytes() == other.bytes
    assert len(stores.kept()) == 1


def test_each_owner_has_a_time_of_their_own(stores: StoreBench) -> None:
    array = numbers((36, 32))
    info = stores.put(array, ttl_s=0.05)
    stores.put(array, owner="bob")
    wait_until_gone(stores, info.id)
    assert stores.store.sweep() == 1
    assert stores.store.used_bytes(owner="ada") == 0
    assert stores.store.used_bytes() == array.nbytes
    np.testing.assert_array_equal(stores.get(stores.store.info(info.id, owner="bob")), array)


def test_a_touch_puts_the_end_off_and_never_nearer(stores: StoreBench) -> None:
    info = stores.put(numbers((3, 3)), ttl_s=60)
    stores.store.touch(info.id, owner="ada", ttl_s=5000)
    later = stores.store.info(info.id, owner="ada")
    assert 4900 < later.expires_at - info.expires_at < 5000
    stores.store.touch(info.id, owner="ada", ttl_s=1)
    stores.put(numbers((3, 3)), ttl_s=1)
    assert stores.store.info(info.id, owner="ada") == later


def test_a_sweep_takes_no_more_than_it_is_told(stores: StoreBench) -> None:
    for seed in range(5):
        last = stores.put(numbers((3, 3), seed=seed), ttl_s=0.05)
    wait_until_gone(stores, last.id)
    assert [stores.store.sweep(limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert nothing_is_left(stores)


def test_a_name_written_again_after_its_time_begins_anew(stores: StoreBench) -> None:
    name = fresh_name()
    wait_until_gone(stores, stores.put(numbers((36, 32)), ttl_s=0.05, name=name).id)
    info = stores.put(numbers((36, 32), seed=1), name=name)
    assert stores.store.sweep() == 0
    np.testing.assert_array_equal(stores.get(info), numbers((36, 32), seed=1))
    assert stores.store.used_bytes(owner="ada") == 4608


# ---- Redis in trouble ----
def test_redis_away_is_said_at_once_and_forgotten_when_it_is_back(make_stores: MakeStores, tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "redis", options=DURABLE)
    server.start()
    try:
        stores = make_stores(url=server.url)
        info = stores.put(numbers((3, 3)))
        writer = stores.store.create("float32", LARGE, owner="ada", ttl_s=60)
        writer.write(numbers(LARGE).tobytes())
        server.kill()
        looks: list[Callable[[], object]] = [
            lambda: stores.store.info(info.id, owner="ada"),
            lambda: stores.put(numbers((3, 3)), name=fresh_name()),
            lambda: stores.store.used_bytes(),
            lambda: stores.store.check_room(1, owner="ada"),
            lambda: stores.store.sweep(),
        ]

        def refused() -> None:
            for look in looks:
                with pytest.raises(StoreUnavailable):
                    look()

        within(2.0, refused)
        with pytest.raises(StoreUnavailable):
            writer.commit()
        writer.abort()
        server.start()
        assert stores.store.info(info.id, owner="ada") == info
        np.testing.assert_array_equal(stores.get(stores.put(numbers(LARGE))), numbers(LARGE))
    finally:
        server.stop()


def test_a_full_redis_is_said_and_can_be_emptied(make_stores: MakeStores, tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "redis")
    server.start()
    try:
        stores = make_stores(url=server.url)
        infos = [stores.put(numbers(LARGE, seed=seed)) for seed in range(2)]
        begun = stores.store.create("float32", LARGE, owner="ada", ttl_s=60)
        stores.client.config_set("maxmemory", 1)
        for name in (None, fresh_name()):
            with pytest.raises(StoreFull):
                stores.put(numbers((3, 3)), name=name)
        with begun as writer, pytest.raises(StoreFull):
            writer.write(numbers(LARGE).tobytes())
            writer.commit()
        assert stores.store.info(infos[0].id, owner="ada") == infos[0]
        stores.store.touch(infos[0].id, owner="ada", ttl_s=100)
        np.testing.assert_array_equal(stores.get(infos[0]), numbers(LARGE, seed=0))
        for info in infos:
            stores.store.delete(info.id, owner="ada")
        assert stores.store.used_bytes() == 0
        assert stores.kept() == []
        stores.client.config_set("maxmemory", 0)
        stores.store.delete(stores.put(numbers(LARGE)).id, owner="ada")
        assert stores.book_keys() == []
    finally:
        server.stop()
