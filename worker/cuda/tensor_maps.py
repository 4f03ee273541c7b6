"""Tensor maps: what Hopper's bulk tensor copies are told of a matrix. Made by the driver, passed to kernels by value.

The driver's own function is called (cuTensorMapEncodeTiled, CUDA driver API, "Tensor Map Object Management"), since
CuPy has no binding for it. A map costs some microseconds, so those used of late are kept: a map says where a matrix
lies and how, and nothing about what it holds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import cupy
import numpy as np

from jobs.errors import DeviceFault
from jobs.formats.elements import Array
from worker.cuda.memory import DeviceMatrix, allocate
from worker.cuda.pitch import Layout

ALIGNMENT_BYTES = 16  # of addresses and pitches
MAP_BYTES, MAP_ALIGNMENT_BYTES = 128, 64
MAP = np.dtype([("words", f"V{MAP_BYTES}")])
# The driver's own numbers. Elements are only moved, so unsigned integers of their size do; but for float32 that copies
# round to TF32.
ELEMENT_TYPES = {1: 0, 2: 1, 4: 2}  # by bytes
TFLOAT32 = 11
NOT_INTERLEAVED, NOT_SWIZZLED, SWIZZLE_128_BYTES, PROMOTE_TO_256_BYTES, ZEROS_OUTSIDE = 0, 0, 3, 3, 0
SWIZZLED_BYTES = 128  # of a box's row
KEPT = 1024
COPY_THREADS, MAX_BLOCKS = 256, 2048  # of the function that copies rows


def tensor_map(matrix: DeviceMatrix, box: tuple[int, int], *, to_tf32: bool = False) -> Array:
    """Of a matrix with ALIGNMENT_BYTES, for copies of `box` (rows, columns), with the 128-byte swizzle where its rows
    have so many bytes; the third coordinate is the matrix of the batch. An argument for a
    `const __grid_constant__ TensorMap`.

    With `to_tf32` copies into shared memory round float32 to TF32. Raises DeviceFault where the driver refuses.
    """
    element_type = TFLOAT32 if to_tf32 else ELEMENT_TYPES[matrix.layout.itemsize]
    return _encoded(matrix.address, matrix.layout, box, element_type)


@lru_cache(maxsize=KEPT)
def _encoded(address: int, layout: Layout, box: tuple[int, int], element_type: int) -> Array:
    buffer = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT_BYTES)
    at = -(-ctypes.addressof(buffer) // MAP_ALIGNMENT_BYTES) * MAP_ALIGNMENT_BYTES
    sizes = [max(size, 1) for size in (layout.columns, layout.rows, layout.batch)]
    pitches = [layout.pitch_bytes, layout.pitch_bytes * max(layout.kept_rows, 1)]
    status = _encode()(
        ctypes.c_void_p(at),
        element_type,
        ctypes.c_uint32(len(sizes)),
        ctypes.c_void_p(address),
        _numbers(ctypes.c_uint64, sizes),
        _numbers(ctypes.c_uint64, pitches),
        _numbers(ctypes.c_uint32, (box[1], box[0], 1)),
        _numbers(ctypes.c_uint32, (1, 1, 1)),  # every element
        NOT_INTERLEAVED,
        SWIZZLE_128_BYTES if box[1] * layout.itemsize == SWIZZLED_BYTES else NOT_SWIZZLED,
        PROMOTE_TO_256_BYTES,
        ZEROS_OUTSIDE,
    )
    if status:
        raise DeviceFault(f"The driver made no tensor map of {layout} (error {status}); report this.")
    return np.frombuffer(ctypes.string_at(at, MAP_BYTES), MAP)


def _numbers(kind: Any, values: Sequence[int]) -> Any:
    return (kind * len(values))(*values)


@cache
def _encode() -> Any:
    return ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled


def is_aligned(matrix: DeviceMatrix) -> bool:
    """Whether a tensor map of it can be made."""
    return matrix.address % ALIGNMENT_BYTES == 0 and matrix.layout.pitch_bytes % ALIGNMENT_BYTES == 0


def room_for(layout: Layout) -> DeviceMatrix:
    """As large a matrix, not initialised, with rows at multiples of ALIGNMENT_BYTES. Raises cupy's OutOfMemoryError."""
    pitch_bytes = -(-layout.pitch_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return allocate(replace(layout, pitch=pitch_bytes // layout.itemsize))


def copy_rows(source: DeviceMatrix, to: DeviceMatrix) -> None:
    """Between matrices that differ in nothing but their pitch, on the current stream."""
    at, height = source.layout, source.layout.batch * source.layout.kept_rows
    if at.row_bytes and height:
        kind, stream = cupy.cuda.runtime.memcpyDeviceToDevice, cupy.cuda.get_current_stream().ptr
        pitches = to.layout.pitch_bytes, at.pitch_bytes
        cupy.cuda.runtime.memcpy2DAsync(
            to.address, pitches[0], source.address, pitches[1], at.row_bytes, height, kind, stream
        )


def copy_rows_if_open(function: Any, source: DeviceMatrix, to: DeviceMatrix, gate: tuple[np.uint64, ...]) -> None:
    """The same for elements of 4 bytes, by a function that first looks at the word at `gate`."""
    at, height = source.layout, source.layout.batch * source.layout.kept_rows
    if at.row_bytes and height:
        sizes = (height, at.columns, at.pitch, to.layout.pitch)
        arguments = (np.uint64(source.address), np.uint64(to.address), *map(np.int64, sizes), *gate)
        function((min(height, MAX_BLOCKS), 1, 1), (COPY_THREADS, 1, 1), arguments)
