"""Slots that a worker maps before it is asked for them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from jobs.matrices.file_lock import EXCLUSIVE, LockedFile, open_file, open_locked
from jobs.matrices.new_slots import NewSlots
from jobs.matrices.slot_format import MIN_SLOT_BYTES, SLOT_PART, slot_length
from jobs.matrices.slot_memory import SlotMemories

LENGTH = slot_length(MIN_SLOT_BYTES)


def slot(path: Path, length: int = LENGTH) -> LockedFile:
    """As its writer has it."""
    file = open_file(str(path), os.O_RDWR | os.O_CREAT)
    assert file is not None and file.lock(EXCLUSIVE)
    if length:
        os.posix_fallocate(file.fd, 0, length)
    return file


@pytest.fixture
def memories() -> SlotMemories:
    return SlotMemories(3 * LENGTH)


def test_a_slot_is_mapped_while_it_is_written_and_is_the_one_that_is_asked_for(
    tmp_path: Path, memories: SlotMemories
) -> None:
    writer = slot(tmp_path / f"w_1{SLOT_PART}")
    new = NewSlots(tmp_path, memories)
    (mapped,) = new.look()
    os.pwrite(writer.fd, b"elements", 0)
    assert not list(new.look())
    os.rename(tmp_path / f"w_1{SLOT_PART}", tmp_path / "c_1")
    assert not list(new.look()), "it has another name, and is the same"
    assert memories.of(writer.fd) is mapped
    assert bytes(mapped.array(writer, 8, writable=False)) == b"elements"


def test_one_whose_memory_is_still_being_allocated_is_looked_at_again(tmp_path: Path, memories: SlotMemories) -> None:
    writer = slot(tmp_path / f"w_1{SLOT_PART}", length=0)
    new = NewSlots(tmp_path, memories)
    assert not list(new.look())
    os.posix_fallocate(writer.fd, 0, LENGTH)
    assert len(list(new.look())) == 1


def test_plain_files_and_holes_are_not_mapped(tmp_path: Path, memories: SlotMemories) -> None:
    (tmp_path / "op_1").write_bytes(b"x" * 100)
    (tmp_path / "op_2").write_bytes(bytes(MIN_SLOT_BYTES))
    with open(tmp_path / "op_3", "wb") as holes:
        holes.truncate(LENGTH)
    os.symlink("/dev/zero", tmp_path / "op_4")
    assert not list(NewSlots(tmp_path, memories).look())


def test_no_other_map_is_given_up_for_it(tmp_path: Path, memories: SlotMemories) -> None:
    kept = [slot(tmp_path / f"c_{number}") for number in range(3)]
    first = [memories.of(file.fd) for file in kept]
    slot(tmp_path / "c_3")
    assert not [memory for memory in NewSlots(tmp_path, memories).look() if memory not in first]
    assert memories.kept_bytes == 3 * LENGTH


def test_it_can_still_be_deleted_and_used_again(tmp_path: Path, memories: SlotMemories) -> None:
    path = tmp_path / "c_1"
    writer = slot(path)
    new = NewSlots(tmp_path, memories)
    assert len(list(new.look())) == 1
    writer.close()
    taken = open_locked(str(path), EXCLUSIVE)
    assert taken is not None, "a map keeps no lock"
    taken.close()
    path.unlink()
    assert not list(new.look())
    assert memories.kept_bytes == 0, "its memory goes back to the system"


def test_a_directory_that_is_gone_says_so(tmp_path: Path, memories: SlotMemories) -> None:
    new = NewSlots(tmp_path / "store", memories)
    (tmp_path / "store").mkdir()
    assert not list(new.look())
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(FileNotFoundError):
        list(new.look())
