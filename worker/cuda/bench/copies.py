"""Times the copies that a product takes between host and device, rows dense there and padded here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median

import cupy
import numpy as np

from jobs.benchmarks.records import CopyFigures
from jobs.formats.elements import Array
from worker.cuda.bench.operands import OperandSet
from worker.cuda.memory import WHOLE, DeviceMatrix, StopWatch, upload
from worker.cuda.pitch import Layout

REPETITIONS = 10


def timed_copies(at: OperandSet, *, pageable: bool) -> CopyFigures:
    """Medians of ten. Each matrix is brought to the host first, so that what is copied back leaves it as it was.

    Raises cupy's CUDARuntimeError where the host has not the memory.
    """
    h2d_ms, sent = [0.0] * REPETITIONS, 0
    for matrix in (at.a, at.b):
        host = _host(matrix.layout, pageable=pageable)
        download(matrix, host)
        times_ms = _times_ms(partial(upload, host, matrix))
        h2d_ms = [before + now for before, now in zip(h2d_ms, times_ms, strict=True)]
        sent += host.nbytes
    host = _host(at.c.layout, pageable=pageable)
    d2h_ms = _times_ms(partial(download, at.c, host))
    return _figures(median(h2d_ms), sent, median(d2h_ms), host.nbytes)


def _figures(h2d_ms: float, sent: int, d2h_ms: float, received: int) -> CopyFigures:
    return CopyFigures(h2d_ms=h2d_ms, d2h_ms=d2h_ms, h2d_gb_s=sent / h2d_ms / 1e6, d2h_gb_s=received / d2h_ms / 1e6)


def _times_ms(copy: Callable[[], None]) -> list[float]:
    """After one that is not counted."""
    copy()
    return [_time_ms(copy) for _ in range(REPETITIONS)]


def _time_ms(copy: Callable[[], None]) -> float:
    watch = StopWatch()
    with watch:
        copy()
    return watch.total_ms()


def _host(layout: Layout, *, pageable: bool) -> Array:
    """Room for a matrix as it is stored."""
    size = layout.batch * layout.rows * layout.row_bytes
    if pageable:
        return np.zeros(size, np.uint8)
    pinned: Array = np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size)
    return pinned


def download(matrix: DeviceMatrix, host: Array) -> None:
    """Starts the copy of a matrix to host memory of its stored size."""
    runtime, stream = cupy.cuda.runtime, cupy.cuda.get_current_stream().ptr
    kind, pitch = runtime.memcpyDeviceToHost, matrix.layout.pitch_bytes
    for piece in matrix.layout.pieces(WHOLE):
        to, source = host.ctypes.data + piece.host_offset, matrix.address + piece.device_offset
        if piece.height == 1:
            runtime.memcpyAsync(to, source, piece.bytes, kind, stream)
        else:
            runtime.memcpy2DAsync(to, piece.width_bytes, source, pitch, piece.width_bytes, piece.height, kind, stream)
