"""Copies of operands that stay on a device: how many, and since when they count."""

from __future__ import annotations

from dataclasses import dataclass

from worker.cuda.operand_cache import MAX_OFFERED, Copies, Kept, OfferedProducts, OperandCache


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
    assert cache.get("a") == Kept(first, 7)
    cache.drop("a")
    cache.drop("a")
    assert cache.get("a") is None and cache.bytes == 0
    cache.keep("a", second, 7)
    assert cache.get("a") == Kept(second, 7) and cache.bytes == 60


def test_copies_count_only_once_they_are_kept_and_are_dropped_together() -> None:
    cache: OperandCache[Copy] = OperandCache(100)
    cache.keep("b", of_size(10), 7)
    copies = Copies(cache, (Operand("a", 1), Operand(None)), (of_size(20), of_size(30)))
    assert cache.get("a") is None
    copies.keep()
    kept = cache.get("a")
    assert kept is not None and kept.digest == 1 and cache.bytes == 30
    Copies(cache, (Operand("a"), Operand("b")), (of_size(20), of_size(10))).drop()
    assert cache.get("a") is None and cache.get("b") is None and cache.bytes == 0


def test_products_are_kept_where_jobs_wait_for_them() -> None:
    cache: OperandCache[Copy] = OperandCache(100)
    offered = OfferedProducts(cache)
    first, second = of_size(10), of_size(20)
    offered.offer("c_1", first, 5)
    offered.next_product([Operand("other"), Operand(None)])  # of a job under way beside it
    offered.offer("c_2", second, 6)
    assert cache.bytes == 0
    offered.ended("c_1", awaited=True)
    offered.ended("c_2", awaited=False)
    assert cache.get("c_1") == Kept(first, 5) and cache.get("c_2") is None
    offered.ended("c_2", awaited=True)  # it is not offered twice
    assert cache.bytes == 10


def test_the_newest_product_is_there_for_the_next_and_not_for_the_one_after() -> None:
    cache: OperandCache[Copy] = OperandCache(100)
    offered = OfferedProducts(cache)
    for name in ("c_1", "c_2", "c_3"):
        offered.offer(name, of_size(10), 5)
        offered.ended(name, awaited=False)
    offered.next_product([Operand("c_1"), Operand("c_3")])
    assert cache.get("c_1") is None and cache.get("c_3") is not None
    offered.offer("c_4", of_size(10), 5)
    offered.ended("c_4", awaited=False)
    offered.next_product([])
    offered.next_product([Operand("c_4")])
    assert cache.get("c_4") is None


def test_a_product_is_found_before_its_end_is_known_and_ends_that_never_come_cost_little() -> None:
    cache: OperandCache[Copy] = OperandCache(100)
    offered = OfferedProducts(cache)
    offered.offer("c_1", of_size(10), 5)
    offered.next_product([Operand("c_1")])
    assert cache.get("c_1") is not None
    for number in range(MAX_OFFERED):
        offered.offer(f"d_{number}", of_size(1), 5)
    offered.next_product([Operand("c_1"), Operand("d_0"), Operand("d_1")])
    assert cache.get("d_0") is not None and cache.bytes == 12
    offered.clear()
    offered.next_product([Operand("d_2")])
    assert cache.get("d_2") is None
