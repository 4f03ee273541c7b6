"""Tensor maps: descriptors of matrices for Hopper's bulk tensor copies (TMA). Encoded by the driver and passed to
kernels by value.

The driver's own functions are called (cuTensorMapEncodeTiled and cuTensorMapReplaceAddress, CUDA driver API, "Tensor
Map Object Management"), since CuPy has no binding for them. A map is made in its place among a kernel's arguments; for
another matrix that lies in the same way only its address is replaced.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import cupy
import numpy as np

from jobs.errors import DeviceFault
from worker.cuda.calls import Arguments, Call
from worker.cuda.memory import DeviceMatrix
from worker.cuda.pitch import Layout

ALIGNMENT_BYTES = 16  # of addresses and pitches
MAP_BYTES = 128
# The driver's own numbers. Elements are only moved, so unsigned integers of their size do; but for float32 that copies
# round to TF32.
ELEMENT_TYPES = {1: 0, 2: 1, 4: 2, 8: 4}  # by bytes
TFLOAT32 = 11
NOT_INTERLEAVED, NOT_SWIZZLED, PROMOTE_TO_256_BYTES, ZEROS_OUTSIDE = 0, 0, 3, 0
SWIZZLES = {64: 2, 128: 3}  # by the bytes of a box's row
COPY_THREADS, MAX_BLOCKS = 256, 2048  # of the function that copies rows
FROM, TO = 0, 1  # of its arguments


class TensorMap:
    """Of matrices with one layout and ALIGNMENT_BYTES, for copies of `box` (rows, columns), with the swizzle of 128
    or 64 bytes where its rows have so many; the third coordinate is the matrix of the batch. An argument for a
    `const __grid_constant__ TensorMap`. With `to_tf32` copies into shared memory round float32 to TF32.
    """

    def __init__(self, place: int, layout: Layout, box: tuple[int, int], *, to_tf32: bool = False) -> None:
        """`place`: where it is made, an address of this process."""
        self._place = ctypes.c_void_p(place)
        self._layout, self._box = layout, box
        self._element_type = TFLOAT32 if to_tf32 else ELEMENT_TYPES[layout.itemsize]
        self._address: int | None = None

    def point_to(self, address: int) -> None:
        """Raises DeviceFault where the driver refuses."""
        if address == self._address:
            return
        made = self._address is not None
        if status := (_replace_address()(self._place, ctypes.c_void_p(address)) if made else self._made(address)):
            raise DeviceFault(f"The driver made no tensor map of {self._layout} (error {status}); report this.")
        self._address = address

    def _made(self, address: int) -> int:
        layout, box = self._layout, self._box
        sizes = [max(size, 1) for size in (layout.columns, layout.rows, layout.batch)]
        pitches = [layout.pitch_bytes, layout.pitch_bytes * max(layout.kept_rows, 1)]
        status: int = _encode()(
            self._place,
            self._element_type,
            ctypes.c_uint32(len(sizes)),
            ctypes.c_void_p(address),
            _numbers(ctypes.c_uint64, sizes),
            _numbers(ctypes.c_uint64, pitches),
            _numbers(ctypes.c_uint32, (box[1], box[0], 1)),
            _numbers(ctypes.c_uint32, (1, 1, 1)),  # every element
            NOT_INTERLEAVED,
            SWIZZLES.get(box[1] * layout.itemsize, NOT_SWIZZLED),
            PROMOTE_TO_256_BYTES,
            ZEROS_OUTSIDE,
        )
        return status


def _numbers(kind: Any, values: Sequence[int]) -> Any:
    return (kind * len(values))(*values)


@cache
def _encode() -> Any:
    return ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled


@cache
def _replace_address() -> Any:
    return ctypes.CDLL("libcuda.so.1").cuTensorMapReplaceAddress


def aligned_layout(at: Layout) -> Layout:
    """A layout for the same matrix, with rows at multiples of ALIGNMENT_BYTES."""
    pitch_bytes = -(-at.pitch_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return replace(at, pitch=pitch_bytes // at.itemsize)


def copy_rows(source: DeviceMatrix, to: DeviceMatrix) -> None:
    """Between matrices that differ in nothing but their pitch, on the current stream."""
    at, height = source.layout, source.layout.batch * source.layout.kept_rows
    if at.row_bytes and height:
        kind, stream = cupy.cuda.runtime.memcpyDeviceToDevice, cupy.cuda.get_current_stream().ptr
        pitches = to.layout.pitch_bytes, at.pitch_bytes
        cupy.cuda.runtime.memcpy2DAsync(
            to.address, pitches[0], source.address, pitches[1], at.row_bytes, height, kind, stream
        )


def gated_copy(function: Any, at: Layout, to: Layout) -> Call | None:
    """The copy by a function for elements of 4 bytes that first reads a word, whose address is its last argument; None
    for an empty matrix."""
    height = at.batch * at.kept_rows
    if not at.row_bytes or not height:
        return None
    sizes = (height, at.columns, at.pitch, to.pitch)
    arguments = Arguments.of((np.uint64(0), np.uint64(0), *map(np.int64, sizes), np.uint64(0)))
    return Call(function, (min(height, MAX_BLOCKS), 1, 1), (COPY_THREADS, 1, 1), arguments)
