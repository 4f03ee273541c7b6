"""What goes into a matrix store and comes out of it: both stores, by the same tests, on a real server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from jobs.errors import DigestMismatch, InvalidMatrix, InvalidRequest, MatrixNotFound
from jobs.formats.elements import STORAGE_DTYPES, matrix_bytes
from jobs.matrices.digest import PART, digest_of
from jobs.matrices.interface import READ_CHUNK_BYTES, MatrixInfo, content_hasher
from kernels.model.numerics import DTYPE_NAMES, DTypeName
from tests.support.stores import LARGE, MakeStores, StoreBench, fresh_name, nothing_is_left, numbers


# ---- in and out ----
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (0, 7), (1, 0)])
@pytest.mark.parametrize("named", [True, False])
def test_what_goes_in_comes_out(stores: StoreBench, dtype: DTypeName, shape: tuple[int, ...], named: bool) -> None:
    array = numbers(shape, dtype)
    info = stores.put(array, name=fresh_name() if named else None)
    assert (info.dtype, info.shape, info.bytes) == (dtype, shape, array.nbytes)
    assert stores.store.info(info.id, owner="ada") == info
    with stores.store.open(info.id, dtype, shape) as read:
        assert read.elements.dtype == STORAGE_DTYPES[dtype]
        assert not read.elements.flags.writeable
        np.testing.assert_array_equal(read.elements, array)
        assert read.digest == digest_of(array)
        read.verify()
    assert b"".join(stores.store.chunks(info.id, info.bytes)) == array.tobytes()
    np.testing.assert_array_equal(stores.store.load(info.id, dtype, shape), array)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("piece", [70_001, 1 << 20, READ_CHUNK_BYTES, 3 * READ_CHUNK_BYTES])
def test_pieces_of_any_size_make_up_a_large_matrix(stores: StoreBench, piece: int, named: bool) -> None:
    array = numbers(LARGE)
    raw = memoryview(array.tobytes())
    name = fresh_name() if named else None
    with stores.store.create("float32", LARGE, owner="ada", ttl_s=60, name=name) as writer:
        for start in range(0, len(raw), piece):
            writer.write(raw[start : start + piece])
        info = writer.commit()
    np.testing.assert_array_equal(stores.get(info), array)


def test_ranges(stores: StoreBench) -> None:
    array = numbers(LARGE)
    raw = array.tobytes()
    info = stores.put(array)
    edge = READ_CHUNK_BYTES
    for start, stop in [(0, 1), (5, 5), (3, 100), (edge - 2, edge + 2), (edge, None), (len(raw) - 1, None), (0, 10**9)]:
        pieces = list(stores.store.chunks(info.id, len(raw), start, stop))
        assert b"".join(pieces) == raw[start:stop]
        assert max(map(len, pieces)) < READ_CHUNK_BYTES + PART


def test_an_array_outlives_its_context(stores: StoreBench) -> None:
    array = numbers((30, 40))
    info = stores.put(array)
    with stores.store.open(info.id, "float32", (30, 40)) as read:
        pass
    stores.store.delete(info.id, owner="ada")
    np.testing.assert_array_equal(read.elements, array)


@pytest.mark.parametrize(
    "size", [READ_CHUNK_BYTES, READ_CHUNK_BYTES + 5, 2 * READ_CHUNK_BYTES, 2 * READ_CHUNK_BYTES - 1]
)
@pytest.mark.parametrize("piece", [READ_CHUNK_BYTES, 300_007])
def test_the_last_part_may_lie_in_two_chunks(stores: StoreBench, size: int, piece: int) -> None:
    raw = memoryview(numbers((1, size), "int8").tobytes())
    with stores.store.create("int8", (1, size), owner="ada", ttl_s=60, name=fresh_name()) as writer:
        for start in range(0, size, piece):
            writer.write(raw[start : start + piece])
        assert writer.digest == digest_of(raw)
        info = writer.commit()
    assert stores.get(info).tobytes() == raw
    for start in (0, size - PART - 5, size - 3):
        assert b"".join(stores.store.chunks(info.id, size, start)) == raw[start:]


def test_what_is_missing_is_told_before_the_first_byte(stores: StoreBench) -> None:
    for matrix_id in (fresh_name(), "0" * 64):
        with pytest.raises(MatrixNotFound):
            stores.store.chunks(matrix_id, 16)
        with pytest.raises(MatrixNotFound), stores.store.open(matrix_id, "float32", (2, 2)):
            pass


def test_another_size_than_asked_for_is_not_found(stores: StoreBench) -> None:
    info = stores.put(numbers((2048, 512)), name=fresh_name())  # one chunk, exactly
    for shape in [(2047, 512), (4096, 512), (2048, 513)]:
        with pytest.raises(MatrixNotFound), stores.store.open(info.id, "float32", shape):
            pass
        with pytest.raises(MatrixNotFound):
            stores.store.chunks(info.id, matrix_bytes("float32", shape))


@pytest.mark.parametrize(
    "matrix_id",
    ["", "x", "../../etc/passwd", "op_" + "0" * 31, "OP_" + "0" * 32, "up_" + "0" * 32, "0" * 63, "0" * 64 + "\n", "*"],
)
def test_only_ids_are_looked_for(stores: StoreBench, matrix_id: str) -> None:
    store = stores.store
    for look in (
        lambda: store.info(matrix_id, owner="ada"),
        lambda: store.touch(matrix_id, owner="ada", ttl_s=1),
        lambda: store.delete(matrix_id, owner="ada"),
        lambda: store.chunks(matrix_id, 16),
        lambda: store.open(matrix_id, "float32", (1, 1)).__enter__(),
        lambda: store.create("float32", (1, 1), owner="ada", ttl_s=1, name=matrix_id),
    ):
        with pytest.raises(MatrixNotFound):
            look()
    assert nothing_is_left(stores)


# ---- content addresses ----
def test_equal_contents_are_kept_once_and_claimed_by_each(stores: StoreBench) -> None:
    array = numbers(LARGE)
    hasher = content_hasher("float32", LARGE)
    hasher.update(array.tobytes())
    ada, bob, again = stores.put(array), stores.put(array, owner="bob"), stores.put(array)
    assert ada.id == bob.id == again.id == hasher.hexdigest()
    assert again.created_at == ada.created_at < bob.created_at
    assert stores.store.used_bytes() == array.nbytes
    assert [stores.store.used_bytes(owner=owner) for owner in ("ada", "bob", "eve")] == [array.nbytes, array.nbytes, 0]
    kept = stores.kept()
    stores.store.delete(ada.id, owner="ada")
    with pytest.raises(MatrixNotFound):
        stores.store.info(ada.id, owner="ada")
    assert stores.kept() == kept
    np.testing.assert_array_equal(stores.get(bob), array)
    stores.store.delete(ada.id, owner="bob")
    assert nothing_is_left(stores)


def test_the_address_holds_dtype_and_shape(stores: StoreBench) -> None:
    zeros = np.zeros((4, 6), STORAGE_DTYPES["float32"])
    alike = [zeros, zeros.reshape(6, 4), zeros.view(STORAGE_DTYPES["int32"]), zeros.reshape(1, 4, 6)]
    assert len({stores.put(array).id for array in alike}) == len(alike)


def test_what_is_another_owners_is_not_there(stores: StoreBench) -> None:
    info = stores.put(numbers((3, 3)))
    for look in (
        lambda: stores.store.info(info.id, owner="eve"),
        lambda: stores.store.touch(info.id, owner="eve", ttl_s=5),
        lambda: stores.store.delete(info.id, owner="eve"),
    ):
        with pytest.raises(MatrixNotFound):
            look()
    assert stores.store.info(info.id, owner="ada") == info


def test_contents_must_have_the_id_they_are_put_under(stores: StoreBench) -> None:
    array = numbers((3, 3))
    right = stores.put(array).id
    stores.store.delete(right, owner="ada")
    for expected, error in [(right, None), ("0" * 64, DigestMismatch), ("x", InvalidRequest)]:
        try:
            with stores.store.create("float32", (3, 3), owner="ada", ttl_s=60, expected_id=expected) as writer:
                writer.write(array.tobytes())
                writer.commit()
        except (DigestMismatch, InvalidRequest) as raised:
            assert type(raised) is error
        else:
            assert error is None
            stores.store.delete(right, owner="ada")
    assert nothing_is_left(stores)


def test_contents_that_were_lost_are_healed_by_the_next_upload(stores: StoreBench) -> None:
    array = numbers(LARGE)
    info = stores.put(array)
    stores.lose_elements()
    with pytest.raises(MatrixNotFound):
        stores.get(info)
    assert stores.put(array, owner="bob").id == info.id
    np.testing.assert_array_equal(stores.get(info), array)
    assert stores.store.used_bytes() == array.nbytes


def test_uploads_and_deletions_of_the_same_contents_at_once(make_stores: MakeStores) -> None:
    """Whatever the order, whoever has a claim can read the contents, and when no one has, nothing is left."""
    arrays = [numbers((200, 200), seed=seed) for seed in range(2)]
    stores = make_stores()

    def churn(owner: str) -> list[MatrixInfo]:
        for _ in range(3 if stores.kind == "objects" else 15):  # a server in Python answers slowly
            infos = [stores.put(array, owner=owner) for array in arrays]
            for info, array in zip(infos, arrays, strict=True):
                np.testing.assert_array_equal(stores.get(info), array)
                stores.store.delete(info.id, owner=owner)
        return [stores.put(array, owner=owner) for array in arrays]

    owners = [f"owner-{i}" for i in range(6)]
    with ThreadPoolExecutor(len(owners)) as pool:
        left = list(pool.map(churn, owners))
    assert stores.store.used_bytes() == sum(array.nbytes for array in arrays)
    assert len(stores.kept()) == len(arrays)
    for owner, infos in zip(owners, left, strict=True):
        for info, array in zip(infos, arrays, strict=True):
            np.testing.assert_array_equal(stores.get(info), array)
            stores.store.delete(info.id, owner=owner)
    assert nothing_is_left(stores)


# ---- writers that do not get to their end ----
@pytest.mark.parametrize("name", [None, "op_" + "7" * 32])
@pytest.mark.parametrize("shape", [(36, 32), LARGE])
def test_a_writer_left_without_commit_leaves_nothing(
    stores: StoreBench, shape: tuple[int, ...], name: str | None
) -> None:
    with stores.store.create("float32", shape, owner="ada", ttl_s=60, name=name) as writer:
        writer.write(numbers(shape).tobytes()[:-1])
        assert stores.store.used_bytes(owner="ada") == numbers(shape).nbytes
        with pytest.raises(InvalidMatrix, match="1 bytes of the matrix are missing"):
            writer.commit()
    assert nothing_is_left(stores)


def test_more_bytes_than_the_shape_has_are_refused(stores: StoreBench) -> None:
    with stores.store.create("float32", (2, 2), owner="ada", ttl_s=60) as writer:
        writer.write(bytes(16))
        with pytest.raises(InvalidMatrix, match="than the 16"):
            writer.write(b"\0")
        info = writer.commit()
        writer.abort()
    assert stores.get(info).tolist() == [[0, 0], [0, 0]]


def test_a_second_attempt_writes_the_same_name(stores: StoreBench) -> None:
    """The first, given up on but alive, takes nothing along when it ends."""
    first, second = numbers(LARGE, seed=1), numbers(LARGE, seed=2)
    name = fresh_name()
    late = stores.store.create("float32", LARGE, owner="ada", ttl_s=60, name=name)
    late.write(first.tobytes()[:100])
    info = stores.put(second, name=name)
    late.abort()
    assert stores.store.info(name, owner="ada") == info
    np.testing.assert_array_equal(stores.get(info), second)
    assert stores.store.used_bytes() == second.nbytes
    with pytest.raises(InvalidRequest, match="another shape"):
        stores.put(numbers((2, 2)), name=name)
    stores.store.delete(name, owner="ada")
    assert nothing_is_left(stores)
