"""When a device is asked how much of its memory is free."""

from __future__ import annotations

import pytest

from worker.device import free_memory
from worker.device.free_memory import PARTS, FreeMemory

FREE = 1 << 20


class Device:
    def __init__(self) -> None:
        self.free, self.asked = FREE, 0

    def ask(self) -> int:
        self.asked += 1
        return self.free


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    monkeypatch.setattr(free_memory, "KNOWN_S", 600.0)
    return Device()


def test_it_is_asked_once_for_small_products(device: Device) -> None:
    memory = FreeMemory(device.ask)
    assert all(memory.has(FREE // PARTS) for _ in range(9)) and device.asked == 1


def test_it_is_asked_for_each_that_needs_a_larger_part(device: Device) -> None:
    memory = FreeMemory(device.ask)
    assert memory.has(1) and memory.has(FREE // PARTS + 1)
    device.free = FREE // 2
    assert not memory.has(FREE // 2 + 1), "what was known is not enough"
    assert device.asked == 3


def test_what_was_known_ages(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_memory, "KNOWN_S", -1.0)
    memory = FreeMemory(device.ask)
    assert memory.has(1)
    device.free = 0
    assert not memory.has(1)
