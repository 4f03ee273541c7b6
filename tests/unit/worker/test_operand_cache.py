"""Copies of operands that stay on a device: how many, and since when they count."""

from __future__ import annotations

from dataclasses import dataclass

from worker.cuda.operand_cache import Copies, NewestProduct, OperandCache


@dataclass(frozen=True, slots=True)
class Layout:
    bytes: int


@dataclass(frozen=True, slots=True)
class Copy:
    layout: Layout


@dataclass(frozen=True, slots=True)
class Operand:
    id: str | None
    expected_digest: int = 7


def of_size(size: int) -> Copy:
    return Copy(Layout(size))


def test_the_ones_used_last_are_kept_within_the_bound() -> None:
    cache: OperandCache[Copy] = OperandCache(100)
    cache.keep("a", of_size(40), 7)
    cache.keep("b", of_size(40), 7)
    assert cache.get("a") is not None
    cache.keep("c", of_size(30), 7)
    assert [cache.get(name) is not None for name in "abc"] == [True, False, True]
    cache.keep("d", of_size(101), 7)
    assert cache.get("d") is None
    assert cache.bytes == 70


def test_what_is_dropped_is_gone_and_its_room_is_free() -> None:
    cache: OperandCache[Copy] = OperandCache(100)
    first, second = of_size(60), of_size(60)
    cache.keep("a", first, 7)
    cache.keep("a", second, 7)
    assert cache.get("a") is first
    cache.drop("a")
    cache.drop("a")
    assert cache.get("a") is None and cache.bytes == 0
    cache.keep("a", second, 7)
    assert cache.get("a") is second and cache.bytes == 60


def test_copies_count_only_once_they_are_kept_and_are_dropped_together() -> None:
    cache: OperandCache[Copy] = OperandCache(100)
    cache.keep("b", of_size(10), 7)
    copies = Copies(cache, (Operand("a", 1), Operand(None)), (of_size(20), of_size(30)))
    assert cache.get("a") is None
    copies.keep()
    assert cache.get("a") is not None and cache.digest("a") == 1 and cache.bytes == 30
    Copies(cache, (Operand("a"), Operand("b")), (of_size(20), of_size(10))).drop()
    assert cache.get("a") is None and cache.get("b") is None and cache.bytes == 0


def test_the_newest_product_is_kept_where_it_is_asked_for_in_time() -> None:
    cache: OperandCache[Copy] = OperandCache(100)
    newest = NewestProduct(cache)
    first, second = of_size(10), of_size(20)
    newest.keep("c_1")
    newest.hold("c_1", first, 5)
    newest.keep("c_2")
    assert cache.bytes == 0
    newest.keep("c_1")
    assert cache.get("c_1") is first and cache.digest("c_1") == 5
    newest.hold("c_2", second, 6)
    newest.let_go()
    newest.keep("c_2")
    assert cache.get("c_2") is None and cache.bytes == 10
