"""Counters that launches leave as they find them, zero: launches of one stream follow each other, so they share them,
and launches of two streams, which may overlap, do not."""

from __future__ import annotations

from typing import Any

import cupy

COUNTER_BYTES = 4
MAX_COUNTERS = 4096  # more than any launch has

_by_stream: dict[tuple[int, int], Any] = {}  # memory, by device and stream


def counters_of(stream: int, count: int) -> int:
    """The address of so many. Raises cupy's OutOfMemoryError."""
    assert count <= MAX_COUNTERS
    key = cupy.cuda.runtime.getDevice(), stream
    if key not in _by_stream:
        memory = cupy.cuda.alloc(MAX_COUNTERS * COUNTER_BYTES)
        memory.memset_async(0, MAX_COUNTERS * COUNTER_BYTES)
        _by_stream[key] = memory
    address: int = _by_stream[key].ptr
    return address
