"""Free slots whose names were listed a moment ago: they are taken without another look at the directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobs.matrices import slots
from jobs.matrices.slot_format import MIN_SLOT_BYTES
from jobs.matrices.slots import Slot, Slots

SIZE = MIN_SLOT_BYTES


class Watched(Slots):
    """Counts how often it is listed."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, 64 * SIZE)
        self.directory, self.listings, self._number = directory, 0, 0

    def _names(self) -> list[str]:
        self.listings += 1
        return super()._names()

    def path(self) -> str:
        self._number += 1
        return str(self.directory / f"matrix{self._number}")

    def freed(self, slot: Slot) -> int:
        inode = os.fstat(slot.fd).st_ino
        slot.drop()
        slot.file.close()
        self.listings = 0
        return inode

    def taken(self) -> Slot:
        slot = self.take(SIZE, self.path())
        assert slot is not None
        return slot


@pytest.fixture
def some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Four free ones."""
    monkeypatch.setattr(slots, "LISTED_S", 600.0)
    some = Watched(tmp_path)
    for slot in [some.make(SIZE, some.path()) for _ in range(4)]:
        some.freed(slot)
    return some


def test_the_directory_is_listed_once_for_several(some: Watched) -> None:
    taken = [some.taken() for _ in range(4)]
    assert len({os.fstat(slot.fd).st_ino for slot in taken}) == 4 and some.listings == 1
    assert some.take(SIZE, some.path()) is None and some.listings == 2, "others may have freed some meanwhile"


def test_the_latest_is_accepted_first(some: Watched) -> None:
    latest = some.freed(some.taken())
    again = some.taken()
    assert os.fstat(again.fd).st_ino == latest and some.listings == 0


def test_those_that_another_process_took_are_passed_over(some: Watched, tmp_path: Path) -> None:
    some.taken()
    there = sorted((tmp_path / slots.FREE).iterdir())
    other = Slots(tmp_path, 64 * SIZE)
    for number in range(2):
        assert other.take(SIZE, str(tmp_path / f"other{number}")) is not None
    some.taken()
    assert not any(path.exists() for path in there) and some.listings == 1
    assert some.take(SIZE, some.path()) is None


def test_they_are_listed_again_after_a_while(some: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "LISTED_S", -1.0)
    for _ in range(3):
        some.taken()
    assert some.listings == 3
