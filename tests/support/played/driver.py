"""In place of CuPy, for a process of its own: memory of the device is memory of this process, copies are done at once,
digests and what surrounds a product are computed by Python."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES
from jobs.matrices.digest import part_digests
from tests.support.kernels.played_complex import arranged, find_not_finite
from tests.support.kernels.played_epilogue import play_epilogue

calls: list[str] = []
memsets: list[int] = []  # bytes of each; they are kernels of the driver's
faults: dict[str, bool] = {}  # "download", "upload": the next one flips a bit; "register": it is refused


class Memory:
    """Of the device."""

    def __init__(self, size: int) -> None:
        self.bytes = np.full(size, 0xA5, np.uint8)
        self.ptr = self.bytes.ctypes.data

    def __add__(self, offset: int) -> Memory:
        beyond = Memory(0)
        beyond.bytes, beyond.ptr = self.bytes, self.ptr + offset
        return beyond

    def memset_async(self, value: int, count: int) -> None:
        memsets.append(count)
        self.bytes[:count] = value


class Runtime:
    memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 1, 2, 3
    CUDARuntimeError = ValueError

    def __init__(self) -> None:
        self.registered: dict[int, int] = {}
        self.bytes_up = 0

    def hostRegister(self, ptr: int, size: int, flags: int) -> None:
        if faults.get("register"):
            raise ValueError("cudaErrorNotSupported")
        assert ptr not in self.registered and flags == 0
        calls.append("register")
        self.registered[ptr] = size

    def hostUnregister(self, ptr: int) -> None:
        calls.append("unregister")
        del self.registered[ptr]

    def memsetAsync(self, to: int, value: int, size: int, stream: int) -> None:
        memsets.append(size)
        ctypes.memset(to, value, size)

    def memcpyAsync(self, to: int, source: int, size: int, kind: int, stream: int) -> None:
        self.memcpy2DAsync(to, size, source, size, size, 1, kind, stream)

    def memcpy2DAsync(
        self, to: int, to_pitch: int, source: int, pitch: int, width: int, height: int, kind: int, _: int
    ) -> None:
        for row in range(height):
            ctypes.memmove(to + row * to_pitch, source + row * pitch, width)
        if kind == self.memcpyDeviceToDevice:
            calls.append("across")
            return
        host = source if kind == self.memcpyHostToDevice else to
        way = "up" if kind == self.memcpyHostToDevice else "down"
        self.bytes_up += width * height if way == "up" else 0
        is_registered = any(begin <= host < begin + size for begin, size in self.registered.items())
        calls.append(f"{way} by DMA" if is_registered else f"{way} by way of a buffer")
        if way == "up" and faults.pop("upload", False):
            ctypes.cast(to, ctypes.POINTER(ctypes.c_uint8))[0] ^= 1
        if calls[-1] == "down by DMA" and faults.pop("download", False):
            ctypes.cast(to, ctypes.POINTER(ctypes.c_uint8))[0] ^= 1


class Function:
    """As the driver has it."""

    ptr = 0

    def __init__(self, call: Callable[[Any], None]) -> None:
        self._call = call

    def __call__(self, grid: Any, block: Any, arguments: Any) -> None:
        self._call(arguments)


class Compiler:
    """As `worker.cuda.compile.Compiler`, for digests, epilogues and results alone."""

    def function(self, program: Any, name: str) -> Any:
        if name.startswith("digest"):
            return Function(self._digest)
        if name == "copy_results":
            return Function(copy_results)
        if name.startswith("complex"):
            macro = next(option for option in program.options if option.startswith("-DDTYPE_"))
            part = macro.removeprefix("-DDTYPE_").lower()
            if name == "complex_finite":
                return Function(lambda arguments: find_not_finite(part, arguments))
            return Function(lambda arguments: arranged(name, part, arguments))
        assert name in ("epilogue", "epilogue_check"), name
        macro = next(option for option in program.options if option.startswith("-DDTYPE_"))
        dtype = STORAGE_DTYPES[macro.removeprefix("-DDTYPE_").lower()]
        return Function(lambda arguments: play_epilogue(dtype, program.options, arguments))

    def _digest(self, arguments: Any) -> None:
        address, row_bytes, pitch, rows, stride, batch, parts, to = map(int, arguments)
        lines = (address + item * stride + row * pitch for item in range(batch) for row in range(rows))
        raw = b"".join(ctypes.string_at(line, row_bytes) for line in lines)
        ctypes.memmove(to, part_digests(memoryview(raw), parts), 8 * parts)


def copy_results(arguments: Any) -> None:
    source, to, size = map(int, arguments)
    ctypes.memmove(to, source, size)
    calls.append("results")


def install() -> Runtime:
    """In place of CuPy."""
    cupy, inner, runtime = MagicMock(name="cupy"), MagicMock(name="cupy_backends"), Runtime()
    cupy.cuda.alloc, cupy.cuda.alloc_pinned_memory = Memory, bytearray
    cupy.cuda.runtime = runtime
    cupy.cuda.get_elapsed_time.return_value = 1.0
    cupy.cuda.memory.OutOfMemoryError = MemoryError
    within = ("cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.api", "cupy_backends.cuda.libs", "pynvml")
    sys.modules.update({"cupy": cupy} | dict.fromkeys(within, inner))
    from worker.cuda import calls as driver_calls

    setattr(driver_calls, "_clear", lambda: _clear)  # noqa: B010
    return runtime


def _clear(address: int, pitch: int, value: int, width: int, height: int, _: Any) -> int:
    """As cuMemsetD2D8Async."""
    memsets.append(width * height)
    for row in range(height):
        ctypes.memset(address + row * pitch, value, width)
    return 0
