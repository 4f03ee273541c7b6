"""Files whose memory is used by one matrix after the other: what is used again, when, and within which bounds."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.disk import file_clock_s
from jobs.errors import MatrixNotFound, StoreFull
from jobs.formats.elements import matrix_bytes
from jobs.matrices import slots
from jobs.matrices.digest import part_count, part_digests
from jobs.matrices.file_lock import LockedFile, open_locked
from jobs.matrices.file_store import SLOT_LEFTOVER_AGE_S, FileMatrixStore
from jobs.matrices.slot_format import TRAILER_BYTES, slot_length
from jobs.redis.embedded import EmbeddedServer
from tests.support.stores import FREE_BYTES, LARGE, StoreBench, fresh_name, make_bench, nothing_is_left, numbers

SIZE = matrix_bytes("float32", LARGE)
SHORTER = (LARGE[0] - 1, LARGE[1])  # of the same length of slot


@pytest.fixture
def bench(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> Iterator[StoreBench]:
    bench = make_bench("slots", valkey.url, key_prefix, tmp_path)
    yield bench
    bench.client.close()


def inode(bench: StoreBench, name: str) -> int:
    return (bench.settings.store_dir / name).stat().st_ino


# ---- the same memory ----
@pytest.mark.parametrize("named", [True, False])
def test_memory_is_used_again(bench: StoreBench, named: bool) -> None:
    info = bench.put(numbers(LARGE), name=fresh_name() if named else None)
    (name,) = bench.kept()
    before = inode(bench, name)
    bench.store.delete(info.id, owner="ada")
    assert bench.kept() == [] and [path.stat().st_ino for path in bench.free()] == [before]
    info = bench.put(numbers(SHORTER, seed=1), name=fresh_name() if named else None)
    assert inode(bench, bench.kept()[0]) == before and bench.free() == []
    np.testing.assert_array_equal(bench.get(info), numbers(SHORTER, seed=1))


def test_other_lengths_and_small_matrices_have_other_files(bench: StoreBench) -> None:
    bench.store.delete(bench.put(numbers(LARGE)).id, owner="ada")
    bench.put(numbers((LARGE[0] * 2, LARGE[1])), name=fresh_name())
    small = bench.put(numbers((200, 300)), name=fresh_name())
    assert len(bench.free()) == 1
    bench.store.delete(small.id, owner="ada")
    assert len(bench.free()) == 1


def test_an_upload_that_fails_gives_its_slot_back(bench: StoreBench) -> None:
    with bench.store.create("float32", LARGE, owner="ada", ttl_s=60) as writer:
        writer.write(numbers(LARGE).tobytes()[:-1])
    assert nothing_is_left(bench) and len(bench.free()) == 1


def test_a_matrix_is_made_in_its_place(bench: StoreBench) -> None:
    array, name = numbers(LARGE), fresh_name()
    with bench.store.place("float32", LARGE) as place:
        assert place is not None
        place.elements[:] = array
        with bench.store.create("float32", LARGE, owner="ada", ttl_s=60, name=name, place=place) as writer:
            lies_there = place.elements.reshape(-1).view(np.uint8).data
            writer.fill(part_digests(lies_there, part_count(SIZE)))
            info = writer.commit()
        address = place.memory.address
    np.testing.assert_array_equal(bench.get(info), array)
    bench.store.delete(name, owner="ada")
    del place, lies_there, writer
    with bench.store.place("float32", LARGE) as again:
        assert again is not None and again.memory.address != address  # it was still in someone's hands: not used again
    with bench.store.place("float32", LARGE) as again:
        assert again is not None


def test_a_place_that_no_one_used_is_given_back_once_no_array_is_on_it(bench: StoreBench) -> None:
    with bench.store.place("float32", LARGE) as place:
        assert place is not None
        elements, first = place.elements, place.memory
    del place
    with bench.store.place("float32", LARGE) as other:
        assert other is not None and other.memory is not first
    del other, elements
    with bench.store.place("float32", LARGE) as one, bench.store.place("float32", LARGE) as another:
        assert one is not None and another is not None
        assert first in (one.memory, another.memory)  # mapped once


def test_there_is_no_place_for_what_has_a_plain_file(bench: StoreBench) -> None:
    with bench.store.place("float32", (3, 3)) as place:
        assert place is None


def test_a_slot_says_which_size_it_has(bench: StoreBench) -> None:
    info = bench.put(numbers(LARGE), name=fresh_name())
    with pytest.raises(MatrixNotFound):
        bench.store.chunks(info.id, matrix_bytes("float32", SHORTER))
    bench.flip(slot_length(SIZE) - TRAILER_BYTES + 9)
    with pytest.raises(MatrixNotFound):
        bench.store.chunks(info.id, SIZE)


# ---- bounds ----
def test_free_slots_are_within_their_bound(bench: StoreBench) -> None:
    names = [bench.put(numbers(LARGE, seed=seed), name=fresh_name()).id for seed in range(14)]
    last = inode(bench, names[-1])
    for name in names:
        bench.store.delete(name, owner="ada")
        assert sum(path.stat().st_size for path in bench.free()) <= FREE_BYTES
    assert len(bench.free()) == FREE_BYTES // slot_length(SIZE)
    assert bench.free()[-1].stat().st_ino == last  # the oldest go


def test_free_slots_and_matrices_are_within_the_store_s_bound(
    valkey: EmbeddedServer, key_prefix: str, tmp_path: Path
) -> None:
    bench = make_bench("slots", valkey.url, key_prefix, tmp_path, store_bytes=5 * SIZE)
    for name in [bench.put(numbers(LARGE, seed=seed), name=fresh_name()).id for seed in range(4)]:
        bench.store.delete(name, owner="ada")
    assert len(bench.free()) == 4
    bench.put(numbers((3 * LARGE[0], LARGE[1])), name=fresh_name())
    assert sum(path.stat().st_size for path in bench.free()) <= 2 * SIZE
    bench.put(numbers((2, 1, 40), seed=1), name=fresh_name())
    bench.client.close()


def test_a_full_disk_takes_free_slots_first(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.store.delete(bench.put(numbers(LARGE)).id, owner="ada")
    allocate = os.posix_fallocate

    def full(fd: int, start: int, length: int) -> None:
        if bench.free():
            raise OSError(errno.ENOSPC, "no space")
        allocate(fd, start, length)

    monkeypatch.setattr(os, "posix_fallocate", full)
    bench.put(numbers((LARGE[0] * 2, LARGE[1])), name=fresh_name())
    assert bench.free() == []
    bench.store.delete(bench.kept()[0], owner="ada")
    monkeypatch.setattr(bench.store, "make_room", lambda: False)
    with pytest.raises(StoreFull, match="disk"):
        bench.put(numbers(LARGE), name=fresh_name())
    assert nothing_is_left(bench)


def test_a_plain_file_that_finds_the_disk_full_takes_free_slots_too(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.store.delete(bench.put(numbers(LARGE)).id, owner="ada")
    write = os.write

    def full(fd: int, data: memoryview) -> int:
        if bench.free():
            raise OSError(errno.ENOSPC, "no space")
        return write(fd, data)

    monkeypatch.setattr(os, "write", full)
    info = bench.put(numbers((9, 9)), name=fresh_name())
    np.testing.assert_array_equal(bench.get(info), numbers((9, 9)))


def test_two_that_remove_the_same_matrix(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts' processes that make room choose the same copies: one has the lock, and the other removes the name."""
    info = bench.put(numbers(LARGE))
    (name,) = bench.kept()

    def removed_meanwhile(path: str, kind: int) -> LockedFile | None:
        file = open_locked(path, kind)
        os.unlink(path)
        return file

    monkeypatch.setattr(slots, "open_locked", removed_meanwhile)
    bench.store.delete(info.id, owner="ada")
    assert not bench.free() and name not in bench.kept()


def test_a_sweep_gives_back_what_no_one_took_for_long(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.store.delete(bench.put(numbers(LARGE)).id, owner="ada")
    bench.store.sweep()
    assert len(bench.free()) == 1
    monkeypatch.setattr(slots, "FREE_AGE_S", -1.0)
    monkeypatch.setattr(bench.store, "_next_reading", 0.0)
    bench.store.sweep()
    assert bench.free() == []


def test_half_of_the_store_or_a_quarter_of_the_tmpfs_and_elsewhere_nothing(
    valkey: EmbeddedServer, key_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def max_free_bytes(**settings: Any) -> int:
        bench = make_bench("file", valkey.url, key_prefix, tmp_path, store_free_bytes=None, **settings)
        bench.client.close()
        assert isinstance(bench.store, FileMatrixStore)
        return bench.store.slots.max_free_bytes

    mounts = tmp_path / "mounts"
    monkeypatch.setattr("jobs.disk.MOUNTS", mounts)
    mounts.write_text(f"none / ext4 rw 0 0\nnone {tmp_path.parent} tmpfs rw 0 0\nnone {tmp_path} xfs rw 0 0\n")
    assert max_free_bytes() == 0
    mounts.write_text(f"none / ext4 rw 0 0\nnone {tmp_path} tmpfs rw 0 0\nnone {tmp_path}/m tmpfs rw 0 0\n")
    size = os.statvfs(tmp_path)
    assert max_free_bytes(store_bytes=8 << 20) == 4 << 20
    assert max_free_bytes(store_bytes=1 << 60) == size.f_blocks * size.f_frsize // 4


# ---- leftovers ----
def test_the_slot_of_a_writer_that_died_is_swept_and_that_of_one_that_lives_is_not(bench: StoreBench) -> None:
    directory = bench.settings.store_dir
    bench.store.delete(bench.put(numbers(LARGE)).id, owner="ada")
    (dead,) = bench.free()
    dead = dead.rename(directory / f"w_{'0' * 32}.slot")
    alive = bench.store.create("float32", LARGE, owner="ada", ttl_s=60, name=fresh_name())
    (name,) = (name for name in bench.kept() if name != dead.name)
    for path in (dead, directory / name):
        os.utime(path, times=(0, file_clock_s() - SLOT_LEFTOVER_AGE_S - 5))
    assert bench.store.sweep() == 1
    assert bench.kept() == [name] and len(bench.free()) == 1
    alive.write(numbers(LARGE).tobytes())
    np.testing.assert_array_equal(bench.get(alive.commit()), numbers(LARGE))
