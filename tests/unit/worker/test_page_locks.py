"""Slots are registered with the driver once, as long as they are mapped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobs.matrices.file_lock import LockedFile, open_file
from jobs.matrices.slot_memory import DISK_MODE, SlotMemories, SlotMemory
from worker.cuda.gpu.page_locks import PageLocks

LENGTH = 1 << 20


class Driver:
    """Knows what is registered, and that it is mapped then."""

    CUDARuntimeError = RuntimeError

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.registered: dict[int, int] = {}

    def hostRegister(self, ptr: int, size: int, flags: int) -> None:
        if self.refuses:
            raise RuntimeError("cudaErrorNotSupported")
        assert ptr not in self.registered and is_mapped(ptr)
        self.registered[ptr] = size

    def hostUnregister(self, ptr: int) -> None:
        assert is_mapped(ptr)
        del self.registered[ptr]


def is_mapped(address: int) -> bool:
    ranges = (line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines())
    return any(int(begin, 16) <= address < int(end, 16) for begin, end in ranges)


def slot(directory: Path, name: str) -> LockedFile:
    file = open_file(str(directory / name), os.O_RDWR | os.O_CREAT)
    assert file is not None
    os.truncate(file.fd, LENGTH)
    return file


def mapped(memories: SlotMemories, file: LockedFile) -> SlotMemory:
    return memories.of(file.fd)


def test_a_slot_is_registered_once_and_until_it_is_unmapped(tmp_path: Path) -> None:
    driver, memories = Driver(), SlotMemories(2 * LENGTH)
    locks, files = PageLocks(driver), [slot(tmp_path, name) for name in "abc"]
    for file in [*files[:2], *files[:2]]:
        assert locks.lock(mapped(memories, file))
    assert list(driver.registered.values()) == [LENGTH, LENGTH]
    (first, _) = driver.registered
    assert locks.lock(mapped(memories, files[2]))  # the one used longest ago goes
    assert len(driver.registered) == 2 and first not in driver.registered
    (tmp_path / "b").unlink()
    mapped(memories, files[2])
    mapped(memories, files[0])
    assert len(driver.registered) == 1
    assert locks.lock(mapped(memories, files[0])) and len(driver.registered) == 2


def test_a_slot_in_use_stays_registered_beyond_the_bound(tmp_path: Path) -> None:
    driver, memories = Driver(), SlotMemories(0)
    file = slot(tmp_path, "a")
    memory = mapped(memories, file)
    assert PageLocks(driver).lock(memory)
    array = memory.array(file, 100, writable=False)[5:]
    del memory
    mapped(memories, slot(tmp_path, "b"))
    assert list(driver.registered) == [array.ctypes.data - 5]
    del array
    assert not driver.registered


def test_a_slot_on_a_disk_is_not_registered(tmp_path: Path) -> None:
    """A device would write to pages that the system is writing to the disk."""
    driver, memories = Driver(), SlotMemories(LENGTH)
    file = slot(tmp_path, "slot")
    os.fchmod(file.fd, DISK_MODE)
    assert not PageLocks(driver).lock(mapped(memories, file)) and not driver.registered


def test_what_the_driver_refuses_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memories, locks = SlotMemories(LENGTH), PageLocks(Driver(refuses=True))
    memory = mapped(memories, slot(tmp_path, "a"))
    assert not locks.lock(memory) and not locks.lock(memory)
    assert capsys.readouterr().out.count("cannot be registered with CUDA") == 1
    assert not locks.lock(None)
