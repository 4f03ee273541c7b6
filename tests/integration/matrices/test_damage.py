"""Stored bytes that change: each store notices, wherever the bit is, and gives none of them away."""

from __future__ import annotations

import pytest

from jobs.errors import MatrixDamaged, MatrixNotFound
from jobs.formats.elements import matrix_bytes
from jobs.matrices.digest import PART
from jobs.matrices.interface import READ_CHUNK_BYTES, MatrixInfo
from tests.support.stores import LARGE, StoreBench, fresh_name, numbers

SIZE = matrix_bytes("float32", LARGE)
DAMAGED = [0, PART, READ_CHUNK_BYTES - 1, READ_CHUNK_BYTES, SIZE - 1, SIZE, SIZE + 8 * (SIZE // PART) - 1]

GONE_OR_DAMAGED = (MatrixDamaged, MatrixNotFound)  # a slot of zeros is no matrix's


@pytest.fixture(params=["named", "by contents"])
def info(request: pytest.FixtureRequest, stores: StoreBench) -> MatrixInfo:
    return stores.put(numbers(LARGE), name=fresh_name() if request.param == "named" else None)


@pytest.mark.parametrize("position", DAMAGED)
def test_a_flipped_bit_is_noticed_wherever_it_is(stores: StoreBench, info: MatrixInfo, position: int) -> None:
    stores.flip(position)
    with pytest.raises(MatrixDamaged):
        stores.get(info)
    with pytest.raises(MatrixDamaged):
        list(stores.store.chunks(info.id, info.bytes))
    with pytest.raises(MatrixDamaged):
        stores.store.load(info.id, info.dtype, info.shape)


def test_a_file_of_zeros_is_noticed(stores: StoreBench, info: MatrixInfo) -> None:
    """As a power cut may leave one that was renamed before it was written to the disk."""
    for name in stores.kept():
        stores.replace(name, bytes(len(stores.raw(name))))
    with pytest.raises(GONE_OR_DAMAGED):
        stores.get(info)
    with pytest.raises(GONE_OR_DAMAGED):
        list(stores.store.chunks(info.id, info.bytes))
    with pytest.raises(GONE_OR_DAMAGED):
        stores.store.load(info.id, info.dtype, info.shape)


def test_what_comes_before_the_damage_is_right_and_the_damage_never_comes(stores: StoreBench, info: MatrixInfo) -> None:
    raw = numbers(LARGE).tobytes()
    stores.flip(READ_CHUNK_BYTES + 77)
    pieces = stores.store.chunks(info.id, info.bytes)
    assert next(pieces) == raw[:READ_CHUNK_BYTES]
    with pytest.raises(MatrixDamaged):
        next(pieces)


def test_a_range_is_refused_where_its_own_parts_are_damaged(stores: StoreBench, info: MatrixInfo) -> None:
    raw = numbers(LARGE).tobytes()
    stores.flip(3 * PART + 100)

    def read(start: int, stop: int) -> bytes:
        return b"".join(stores.store.chunks(info.id, info.bytes, start, stop))

    assert read(0, 3 * PART) == raw[: 3 * PART]
    assert read(4 * PART, SIZE) == raw[4 * PART :]
    for start, stop in [(3 * PART, 3 * PART + 1), (3 * PART + 100, 3 * PART + 101), (4 * PART - 1, 4 * PART + 1)]:
        with pytest.raises(MatrixDamaged):  # before the first byte
            stores.store.chunks(info.id, info.bytes, start, stop)


@pytest.mark.parametrize("damage", ["a flipped bit", "lost"])
def test_the_next_upload_heals(stores: StoreBench, damage: str) -> None:
    info = stores.put(numbers(LARGE))
    if damage == "lost":
        stores.lose_elements()
    else:
        stores.flip(5 * PART)
    assert stores.put(numbers(LARGE), owner="bob").id == info.id
    assert stores.get(info).tobytes() == numbers(LARGE).tobytes()
    assert len(stores.kept()) == (2 if stores.kind == "redis" else 1)
    assert stores.store.used_bytes() == SIZE


@pytest.mark.parametrize("change", ["shorter", "longer", "empty"])
def test_a_file_of_another_size_is_not_found(stores: StoreBench, info: MatrixInfo, change: str) -> None:
    """As of a store whose files have no digests. In Redis a longer chunk is no harm, nor are
    longer digests in a bucket: what is past them is not read."""
    name = stores.kept()[-1]
    kept = stores.raw(name)
    stores.replace(name, {"shorter": kept[:-8], "longer": kept + bytes(8), "empty": b""}[change])
    if change == "longer" and stores.kind in ("redis", "objects"):
        assert stores.get(info).tobytes() == numbers(LARGE).tobytes()
        return
    with pytest.raises(MatrixNotFound):
        stores.get(info)
    with pytest.raises(MatrixNotFound):
        stores.store.chunks(info.id, info.bytes)
