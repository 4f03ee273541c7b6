"""Slots under readers: none is used again while it is read, and what is there is found."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pytest

from jobs.errors import MatrixDamaged, MatrixNotFound
from jobs.formats.elements import matrix_bytes
from jobs.matrices import file_source
from jobs.matrices.file_lock import EXCLUSIVE, SHARED, LockedFile, open_file, open_locked
from jobs.matrices.file_store import FileMatrixStore
from jobs.matrices.slot_format import slot_length
from jobs.matrices.slot_memory import MAX_LENT
from tests.integration.matrices.test_slots import SHORTER, SIZE, bench, inode
from tests.support.stores import LARGE, StoreBench, fresh_name, numbers

__all__ = ["bench"]


def replace(bench: StoreBench, name: str) -> tuple[int, int]:
    """Deletes a matrix, and stores one of another owner: the inodes of both."""
    before = inode(bench, name)
    bench.store.delete(name, owner="ada")
    other = bench.put(numbers(SHORTER, seed=9), owner="eve", name=fresh_name())
    np.testing.assert_array_equal(bench.get(other), numbers(SHORTER, seed=9))
    return before, inode(bench, other.id)


def test_a_slot_that_is_read_is_not_used_again(bench: StoreBench) -> None:
    array, name = numbers(LARGE), fresh_name()
    bench.put(array, name=name)
    pieces = bench.store.chunks(name, SIZE)
    first = next(pieces)
    before, after = replace(bench, name)
    assert before != after
    assert b"".join([first, *pieces]) == array.tobytes()


def test_a_slot_is_not_used_again_while_a_view_of_it_lives(bench: StoreBench) -> None:
    array, name = numbers(LARGE), fresh_name()
    bench.put(array, name=name)
    with bench.store.open(name, "float32", LARGE) as stored:
        view = stored.elements.reshape(-1)[100:].view(np.uint8).data
    del stored
    before, after = replace(bench, name)
    assert before != after
    assert bytes(view) == array.tobytes()[400:]


def test_a_reply_is_sent_from_its_slot_which_is_not_used_again_meanwhile(bench: StoreBench) -> None:
    array, name = numbers(LARGE), fresh_name()
    bench.put(array, name=name)
    lent = bench.store.whole(name, SIZE)
    assert lent is not None and lent.readonly
    part = lent[100:]
    del lent
    before, after = replace(bench, name)
    assert before != after and bytes(part) == array.tobytes()[100:]


def test_few_slots_are_lent_at_the_same_time_and_no_damaged_one(bench: StoreBench) -> None:
    name = fresh_name()
    bench.put(numbers(LARGE), name=name)
    bench.flip(SIZE - 1, name)
    for _ in range(MAX_LENT + 1):
        with pytest.raises(MatrixDamaged):
            bench.store.whole(name, SIZE)
    bench.flip(SIZE - 1, name)
    held = [bench.store.whole(name, SIZE) for _ in range(MAX_LENT)]
    assert len({np.frombuffer(each, np.uint8).ctypes.data for each in held if each}) == 1, "none is copied"
    assert bench.store.whole(name, SIZE) is None, "it comes in pieces"
    held.pop()
    assert bench.store.whole(name, SIZE) is not None


def test_maps_are_bounded_and_those_of_slots_that_are_gone_are_forgotten(bench: StoreBench) -> None:
    store, name = bench.store, fresh_name()
    assert isinstance(store, FileMatrixStore)
    bench.put(numbers(LARGE), name=name)
    store.delete(name, owner="ada")
    mapped = slot_length(SIZE)
    store.tidy_maps(mapped)
    assert store.memories.kept_bytes == mapped, "it may be used again"
    bench.put(numbers(LARGE), name=name)
    store.tidy_maps(mapped - 1)
    assert store.memories.kept_bytes == 0
    bench.put(numbers(LARGE), name=fresh_name())
    bench.lose_elements()
    store.tidy_maps(mapped)
    assert store.memories.kept_bytes == 0, "it would keep the slot's memory"


@pytest.mark.parametrize("shape", [LARGE, SHORTER])
def test_a_reader_that_comes_too_late_finds_nothing(
    bench: StoreBench, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has opened the file, but not locked it yet, when the matrix goes and another takes its memory."""
    name = fresh_name()
    bench.put(numbers(shape), name=name)
    inodes = []

    def opened_late(path: str, flags: int) -> LockedFile | None:
        file = open_file(path, flags)
        if path.endswith(name) and file is not None:
            bench.store.delete(name, owner="ada")
            inodes.append(os.fstat(file.fd).st_ino)
            inodes.append(inode(bench, bench.put(numbers(shape, seed=9), owner="eve", name=fresh_name()).id))
        return file

    monkeypatch.setattr(file_source, "open_file", opened_late)
    with pytest.raises(MatrixNotFound):
        bench.store.chunks(name, matrix_bytes("float32", shape))
    assert inodes[0] == inodes[1]


def test_a_reader_that_is_overtaken_by_another_attempt_reads_that(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = fresh_name()
    bench.put(numbers(LARGE), name=name)
    later = iter([numbers(LARGE, seed=1)])

    def opened_late(path: str, flags: int) -> LockedFile | None:
        file = open_file(path, flags)
        for array in later:
            bench.put(array, name=name)
        return file

    monkeypatch.setattr(file_source, "open_file", opened_late)
    assert b"".join(bench.store.chunks(name, SIZE)) == numbers(LARGE, seed=1).tobytes()


def test_no_reader_meets_the_writer_s_lock(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the moment in which the slot becomes a matrix."""
    rename, could_read = os.rename, []

    def watched(source: Any, to: Any) -> None:
        rename(source, to)
        could_read.append(open_locked(to, SHARED) is not None)

    monkeypatch.setattr(os, "rename", watched)
    bench.put(numbers(LARGE), name=fresh_name())
    assert could_read == [True]


def test_a_reader_waits_for_one_who_took_the_slot_for_a_free_one(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two find a slot free. One is held up before it locks it, until the other has stored a matrix there."""
    info = bench.put(numbers(LARGE), name=fresh_name())
    late = open_file(str(bench.settings.store_dir / info.id), os.O_RDWR)
    assert late is not None and late.lock(EXCLUSIVE)
    sleep = time.sleep

    def seen(seconds: float) -> None:
        late.close()
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", seen)
    assert b"".join(bench.store.chunks(info.id, SIZE)) == numbers(LARGE).tobytes()


def test_a_slot_that_stays_locked_is_not_there(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_source, "LOCKED_S", 0.01)
    info = bench.put(numbers(LARGE), name=fresh_name())
    held = open_file(str(bench.settings.store_dir / info.id), os.O_RDWR)
    assert held is not None and held.lock(EXCLUSIVE)
    with pytest.raises(MatrixNotFound):
        bench.store.chunks(info.id, SIZE)
    held.close()
