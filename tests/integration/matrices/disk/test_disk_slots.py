"""Slots on a disk: after a power cut a name may have an earlier matrix's bytes, in whole or in part. No reader takes
them for the matrix."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import MatrixDamaged, MatrixNotFound
from jobs.formats.elements import matrix_bytes
from jobs.matrices.digest import part_count, part_digests
from jobs.matrices.file_store import FileMatrixStore
from jobs.matrices.interface import parts_bytes
from jobs.matrices.slot_format import slot_length
from jobs.matrices.slots import DISK_FREE_BYTES, DISK_MIN_BYTES
from jobs.redis.embedded import EmbeddedServer
from tests.support.stores import LARGE, StoreBench, fresh_name, make_bench, numbers

SIZE = matrix_bytes("float32", LARGE)
Make = Callable[..., StoreBench]


@pytest.fixture
def make(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """A store in a directory that is on a file system of that kind, as far as it knows."""
    made: list[StoreBench] = []

    def make(kind: str = "ext4", **settings: Any) -> StoreBench:
        mounts = tmp_path / "mounts"
        mounts.write_text(f"none / {kind} rw 0 0\n")
        monkeypatch.setattr("jobs.disk.MOUNTS", mounts)
        made.append(make_bench("file", valkey.url, key_prefix, tmp_path, **({"store_free_bytes": None} | settings)))
        return made[-1]

    yield make
    for bench in made:
        bench.client.close()


@pytest.fixture
def bench(make: Make) -> StoreBench:
    return make()


def slots_of(bench: StoreBench) -> tuple[int, bool]:
    assert isinstance(bench.store, FileMatrixStore)
    return bench.store.slots.max_free_bytes, bench.store.slots.on_disk


def length(bench: StoreBench, name: str) -> int:
    return (bench.settings.store_dir / name).stat().st_size


def test_only_a_file_system_that_never_copies_on_write_has_them(make: Make) -> None:
    assert slots_of(make()) == (DISK_FREE_BYTES, True)
    assert slots_of(make(store_bytes=8 << 20)) == (4 << 20, True)
    assert all(slots_of(make(kind)) == (0, False) for kind in ("btrfs", "xfs", "zfs", "overlay", "nfs4"))
    assert slots_of(make(store_free_bytes=0)) == (0, False)
    assert slots_of(make(store_free_bytes=5 << 20)) == (5 << 20, False), "as asked for, without labels"


@pytest.mark.parametrize("named", [True, False])
def test_memory_is_used_again(bench: StoreBench, named: bool) -> None:
    first = bench.put(numbers(LARGE), name=fresh_name() if named else None)
    inode = (bench.settings.store_dir / bench.kept()[0]).stat().st_ino
    bench.store.delete(first.id, owner="ada")
    second = bench.put(numbers(LARGE, seed=1), name=fresh_name() if named else None)
    assert (bench.settings.store_dir / bench.kept()[0]).stat().st_ino == inode
    np.testing.assert_array_equal(bench.get(second), numbers(LARGE, seed=1))


def test_a_new_one_has_all_its_memory_once_it_can_be_read(bench: StoreBench) -> None:
    bench.put(numbers(LARGE), name=fresh_name())
    status = (bench.settings.store_dir / bench.kept()[0]).stat()
    assert status.st_blocks * 512 >= status.st_size == slot_length(SIZE)


def test_small_matrices_have_plain_files(bench: StoreBench) -> None:
    rows = DISK_MIN_BYTES // 4096
    small, large = (bench.put(numbers((count, 1024)), name=fresh_name()).id for count in (rows - 1, rows))
    assert length(bench, small) == DISK_MIN_BYTES - 4096 + parts_bytes(DISK_MIN_BYTES - 4096)
    assert length(bench, large) == slot_length(DISK_MIN_BYTES)


def test_the_same_contents_twice_are_one(bench: StoreBench) -> None:
    first, second = bench.put(numbers(LARGE)), bench.put(numbers(LARGE), owner="grace")
    assert first.id == second.id and len(bench.kept()) == 1
    np.testing.assert_array_equal(bench.get(second), numbers(LARGE))


def test_a_place_is_a_slot_that_there_is(bench: StoreBench) -> None:
    with bench.store.place("float32", LARGE) as place:
        assert place is None, "mapping a new one takes longer than writing to it"
    bench.store.delete(bench.put(numbers(LARGE)).id, owner="ada")
    array, name = numbers(LARGE, seed=1), fresh_name()
    with bench.store.place("float32", LARGE) as place:
        assert place is not None and place.memory.is_on_disk
        place.elements[:] = array
        with bench.store.create("float32", LARGE, owner="ada", ttl_s=60, name=name, place=place) as writer:
            writer.fill(part_digests(place.elements.reshape(-1).view(np.uint8).data, part_count(SIZE)))
            info = writer.commit()
    np.testing.assert_array_equal(bench.get(info), array)


def test_a_matrix_that_is_built_in_its_slot_has_all_its_memory_first(bench: StoreBench) -> None:
    with bench.store.partial(name := fresh_name(), "float32", LARGE) as partial:
        assert partial is not None
        (path,) = (bench.settings.store_dir / each for each in bench.kept())
        assert path.stat().st_blocks * 512 >= slot_length(SIZE)
        partial.place.elements[:] = numbers(LARGE)
        raw = partial.place.elements.reshape(-1).view(np.uint8).data
        with bench.store.create("float32", LARGE, owner="ada", ttl_s=60, name=name, place=partial.place) as writer:
            writer.fill(part_digests(raw, part_count(SIZE)))
            info = writer.commit()
    np.testing.assert_array_equal(bench.get(info), numbers(LARGE))


# ---- a power cut ----
REGIONS = (0, SIZE, SIZE + parts_bytes(SIZE), slot_length(SIZE))  # elements, digests, label and size


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("is_new", list(product([True, False], repeat=3)))
def test_what_a_power_cut_mixes_is_never_taken_for_the_matrix(
    bench: StoreBench, named: bool, is_new: tuple[bool, ...]
) -> None:
    old = bench.put(numbers(LARGE), name=fresh_name() if named else None)
    before = bench.raw(bench.kept()[0])
    bench.store.delete(old.id, owner="ada")
    info = bench.put(numbers(LARGE, seed=1), name=fresh_name() if named else None)
    (name,) = bench.kept()
    after = bench.raw(name)
    expected = MatrixDamaged if is_new[2] else MatrixNotFound  # by what the label says
    mixed = [
        (after if new else before)[begin:end] for new, begin, end in zip(is_new, REGIONS[:-1], REGIONS[1:], strict=True)
    ]
    bench.replace(name, b"".join(mixed))
    if all(is_new):
        np.testing.assert_array_equal(bench.get(info), numbers(LARGE, seed=1))
        return
    with pytest.raises(expected):
        bench.get(info)
    with pytest.raises(expected):
        list(bench.store.chunks(info.id, SIZE))
    with pytest.raises(expected):
        bench.store.whole(info.id, SIZE)


def test_a_full_disk_takes_free_slots_first(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.store.delete(bench.put(numbers((LARGE[0] * 2, LARGE[1])), name=fresh_name()).id, owner="ada")
    assert len(bench.free()) == 1
    allocate = os.posix_fallocate

    def full(fd: int, offset: int, size: int) -> None:
        if bench.free():
            raise OSError(errno.ENOSPC, "no space")
        allocate(fd, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", full)
    info = bench.put(numbers(LARGE), name=fresh_name())
    np.testing.assert_array_equal(bench.get(info), numbers(LARGE))


def test_a_new_slot_comes_within_the_store_s_bound(make: Make) -> None:
    bench = make(store_bytes=4 * slot_length(SIZE))
    larger = (LARGE[0] * 3 // 2, LARGE[1])
    bench.store.delete(bench.put(numbers(larger), name=fresh_name()).id, owner="ada")
    assert len(bench.free()) == 1
    kept = []
    for seed in range(3):
        bench.put(numbers(LARGE, seed=seed), name=fresh_name())
        kept.append(len(bench.free()))
    assert kept == [1, 0, 0], "what is claimed, and what the new slot will have"


def test_one_that_never_reached_the_disk_is_gone(bench: StoreBench) -> None:
    info = bench.put(numbers(LARGE), name=fresh_name())
    bench.replace(bench.kept()[0], bytes(slot_length(SIZE)))
    with pytest.raises(MatrixNotFound):
        bench.get(info)


# ---- settings that change ----
@pytest.mark.parametrize("settings", [{"store_free_bytes": 64 << 20}, {"store_free_bytes": 0}])
def test_with_other_settings_all_is_read_and_no_slot_is_used_for_the_other_kind(
    make: Make, settings: dict[str, int]
) -> None:
    disk, other = make(), make(**settings)
    infos = [bench.put(numbers(LARGE, seed=seed), name=fresh_name()) for seed, bench in enumerate((disk, other))]
    for bench in (disk, other):
        for seed, info in enumerate(infos):
            np.testing.assert_array_equal(bench.get(info), numbers(LARGE, seed=seed))
    modes = [stat.S_IMODE(os.stat(disk.settings.store_dir / info.id).st_mode) for info in infos]
    assert modes == [0o700, 0o600]
    disk.store.delete(infos[0].id, owner="ada")
    third = other.put(numbers(LARGE, seed=2), name=fresh_name())
    assert stat.S_IMODE(os.stat(disk.settings.store_dir / third.id).st_mode) == 0o600
    np.testing.assert_array_equal(disk.get(third), numbers(LARGE, seed=2))
