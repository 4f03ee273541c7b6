"""Copies of rectangles between the host's memory and a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import cupy

from worker.cuda.pitch import LARGEST_PITCH_BYTES


class Copy(NamedTuple):
    """Rows between host and device; widths and pitches in bytes."""

    device: int
    device_pitch: int
    host: int
    host_pitch: int
    width: int
    height: int


def pieces(copy: Copy, count: int) -> Iterator[Copy]:
    """The copy in about `count` pieces."""
    height = max(1, -(-copy.height // max(1, count)))
    for row in range(0, copy.height, height):
        yield copy._replace(
            device=copy.device + row * copy.device_pitch,
            host=copy.host + row * copy.host_pitch,
            height=min(height, copy.height - row),
        )


def start_copy(copy: Copy, stream: int, *, to_device: bool) -> None:
    runtime = cupy.cuda.runtime
    kind = runtime.memcpyHostToDevice if to_device else runtime.memcpyDeviceToHost
    if copy.device_pitch == copy.width == copy.host_pitch or copy.height == 1:
        size = copy.width * copy.height
        to, source = (copy.device, copy.host) if to_device else (copy.host, copy.device)
        runtime.memcpyAsync(to, source, size, kind, stream)
        return
    if max(copy.device_pitch, copy.host_pitch) > LARGEST_PITCH_BYTES:
        for row in pieces(copy, copy.height):
            start_copy(row, stream, to_device=to_device)
        return
    device, host = (copy.device, copy.device_pitch), (copy.host, copy.host_pitch)
    to_and_source = (*device, *host) if to_device else (*host, *device)
    runtime.memcpy2DAsync(*to_and_source, copy.width, copy.height, kind, stream)
