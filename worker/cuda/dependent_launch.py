"""Programmatic dependent launch (PDL): kernels that begin while the one before them on the stream ends. CuPy does not
expose it.

The driver's own function is called (cuLaunchKernelEx, CUDA driver API, "Execution Control"), with the attribute of
programmatic stream serialization. The kernel waits by itself for what it reads
(`kernels/cuda/common/dependent_launch.cuh`).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import cupy
import numpy as np

from jobs.errors import DeviceFault
from jobs.formats.elements import Array

FIRST_CAPABILITY = 90  # major and minor, as CuPy has it
STREAM_SERIALIZATION = 6  # the driver's number for that attribute of a launch


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


def launch_dependent(
    function: Any,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    arguments: tuple[np.generic | Array, ...],
    shared_bytes: int = 0,
) -> None:
    """Puts the function on the current stream; on a device that knows no other order, behind what is there. Raises
    DeviceFault where the driver refuses."""
    if int(cupy.cuda.Device().compute_capability) < FIRST_CAPABILITY:
        function(grid, block, arguments, shared_mem=shared_bytes)
        return
    attribute = _Attribute(STREAM_SERIALIZATION, 0, 1)
    stream = cupy.cuda.get_current_stream().ptr
    config = _Config(grid, block, shared_bytes, stream, ctypes.pointer(attribute), 1)
    values = [np.ascontiguousarray(argument) for argument in arguments]  # these must live until it is launched
    places = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
    status = _launch()(ctypes.byref(config), ctypes.c_void_p(function.ptr), places, None)
    if status:
        raise DeviceFault(f"The driver did not launch a kernel (error {status}); report this.")


@cache
def _launch() -> Any:
    return ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx
