"""Slots in this process: mapped at once, and for as long as anything needs them."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pytest

from jobs.matrices import slot_memory
from jobs.matrices.file_lock import EXCLUSIVE, LockedFile, open_file, open_locked
from jobs.matrices.slot_memory import SlotMemories, SlotMemory

PAGES = 2048


def slot(path: Path, pages: int = PAGES) -> LockedFile:
    file = open_file(str(path), os.O_RDWR | os.O_CREAT)
    assert file is not None and file.lock(EXCLUSIVE)
    os.posix_fallocate(file.fd, 0, pages * 4096)
    return file


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


@pytest.mark.parametrize("threads", [1, 3])
def test_all_pages_are_there_at_once(tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_memory, "MAX_POPULATING", threads)
    monkeypatch.setattr(slot_memory, "POPULATED_BYTES", 1 << 20)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    file = slot(tmp_path / "slot", PAGES + 1)
    memory = SlotMemory(file.fd, (PAGES + 1) * 4096)
    array = memory.array(file, memory.bytes, writable=True)
    before = faults()
    array[::4096] = 7
    assert faults() - before < PAGES // 10
    assert os.pread(file.fd, 1, PAGES * 4096) == b"\7"


def test_where_the_system_cannot_they_come_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_memory, "MADV_POPULATE_WRITE", 12345)
    file = slot(tmp_path / "slot")
    array = SlotMemory(file.fd, PAGES * 4096).array(file, PAGES * 4096, writable=True)
    array[:] = 5
    assert os.pread(file.fd, 2, PAGES * 2048) == b"\5\5"


def test_an_array_keeps_its_slot_locked_and_mapped(tmp_path: Path) -> None:
    memories, path = SlotMemories(0), tmp_path / "slot"
    file = slot(path)
    array = memories.of(file.fd).array(file, 100, writable=True)
    view = array[50:].view(np.float16)
    del array, file
    assert open_locked(str(path), EXCLUSIVE) is None
    view[0] = 3
    del view
    again = open_locked(str(path), EXCLUSIVE)
    assert again is not None


def test_an_array_to_read_is_not_written(tmp_path: Path) -> None:
    file = slot(tmp_path / "slot")
    array = SlotMemory(file.fd, PAGES * 4096).array(file, 10, writable=False)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
