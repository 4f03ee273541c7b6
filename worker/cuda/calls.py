"""Launches with preallocated arguments. From launch to launch only addresses change, which are written in place: the
driver copies the arguments at each launch.

The driver's own function is called (cuLaunchKernelEx, CUDA driver API, "Execution Control"): CuPy packs arguments anew
each time, and does not expose programmatic dependent launch (PDL), kernels that begin while the one before them on the
stream ends. Such a kernel itself waits for the data that it reads (`kernels/cuda/common/dependent_launch.cuh`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import cupy
import numpy as np

from jobs.errors import DeviceFault

FIRST_CAPABILITY = 90  # of dependent launches: major and minor, as CuPy has it
STREAM_SERIALIZATION = 6  # the driver's number for that attribute of a launch
WORD_BYTES = 8
ALIGNMENT_BYTES = 64  # of a tensor map, the largest argument there is


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_byte * 60))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    )


class Arguments:
    """Packed arguments of functions with one signature: `sizes` are their sizes in bytes."""

    def __init__(self, sizes: Sequence[int]) -> None:
        starts = np.cumsum([0, *(_up(size) for size in sizes)])
        self.sizes = tuple(sizes)
        self._memory = ctypes.create_string_buffer(int(starts[-1]) + ALIGNMENT_BYTES)
        base = _up(ctypes.addressof(self._memory))
        places = [base + int(start) for start in starts[:-1]]
        self.places = (ctypes.c_void_p * len(places))(*places)
        self._words = [ctypes.c_uint64.from_address(place) for place in places]

    @classmethod
    def of(cls, values: Sequence[np.generic]) -> Arguments:
        """Numbers, some of which may be set later."""
        packed = cls([value.nbytes for value in values])
        for place, value in zip(packed.places, values, strict=True):
            ctypes.memmove(place, value.tobytes(), value.nbytes)
        return packed

    def set(self, index: int, word: int) -> None:
        """An argument of WORD_BYTES."""
        self._words[index].value = word

    def place_of(self, index: int) -> int:
        """An address of this process."""
        return ctypes.addressof(self._words[index])

    def write(self, index: int, data: bytes) -> None:
        """An argument of any size."""
        ctypes.memmove(self.place_of(index), data, len(data))


class Call:
    """A compiled function, how it is launched, and its arguments. For one thread."""

    def __init__(
        self,
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Arguments,
        *,
        shared_bytes: int = 0,
        is_dependent: bool = False,
    ) -> None:
        """`is_dependent`: it may begin while what is before it on the stream ends, where the device knows of that."""
        self.function, self.arguments = function, arguments
        self.grid, self.is_dependent = grid, is_dependent
        attribute = _Attribute(STREAM_SERIALIZATION, 0, 1)
        count = int(is_dependent and _has_dependent_launch())
        self._config = _Config(grid, block, shared_bytes, None, ctypes.pointer(attribute), count)
        self._driver_s = ctypes.byref(self._config), ctypes.c_void_p(function.ptr), arguments.places, None

    def put(self, stream: int) -> None:
        """Puts it on a stream. Raises DeviceFault where the driver refuses."""
        self._config.stream = stream
        if status := _launch()(*self._driver_s):
            raise DeviceFault(f"The driver did not launch a kernel (error {status}); report this.")


@dataclass(frozen=True, slots=True)
class Step:
    """A compiled function of a kernel, and how it is launched on this device."""

    function: Any
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    is_dependent: bool  # it may begin while what is before it on the stream ends

    def call(self, arguments: Arguments) -> Call:
        return Call(
            self.function,
            self.grid,
            self.block,
            arguments,
            shared_bytes=self.shared_bytes,
            is_dependent=self.is_dependent,
        )


def clear_columns(address: int, pitch: int, width: int, height: int, stream: int) -> None:
    """Writes zeros to `width` bytes at the start of each of `height` rows, `pitch` bytes apart. CuPy does not expose
    cuMemsetD2D8Async. Raises DeviceFault."""
    if status := _clear()(address, pitch, 0, width, height, stream):
        raise DeviceFault(f"The driver did not clear the padding of a matrix (error {status}); report this.")


def _up(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


@cache
def _has_dependent_launch() -> bool:
    return int(cupy.cuda.Device().compute_capability) >= FIRST_CAPABILITY


@cache
def _launch() -> Any:
    return ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx


@cache
def _clear() -> Any:
    function = ctypes.CDLL("libcuda.so.1").cuMemsetD2D8Async
    size = ctypes.c_size_t
    function.argtypes = (ctypes.c_uint64, size, ctypes.c_ubyte, size, size, ctypes.c_void_p)
    return function
