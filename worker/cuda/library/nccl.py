"""NCCL, which carries what GPUs send each other: the few functions needed, by ctypes.

Names are those of nccl.h. A communicator has a rank for each GPU of this process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from jobs.errors import DeviceFault, KernelUnavailable, OutOfDeviceMemory
from worker.cuda.library.shared_objects import shared_object

NAMES = ("libnccl.so.2",)
CUDA_ERROR = 1  # ncclResult_t; memory that is not there is one, and NCCL does not say which it is


def version() -> str | None:
    """The library's version; None if it is not installed."""
    library, number = shared_object(*NAMES), ctypes.c_int()
    if library is None or library.ncclGetVersion(ctypes.byref(number)):
        return None
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


def communicators(devices: Sequence[int]) -> list[ctypes.c_void_p]:
    """A communicator for each device, in order; waits for all of them. Raises DeviceFault, KernelUnavailable."""
    library = _library()
    made = (ctypes.c_void_p * len(devices))()
    status = library.ncclCommInitAll(made, len(devices), (ctypes.c_int * len(devices))(*devices))
    if status:
        raise DeviceFault(f"NCCL could not connect the GPUs: {_meaning(library, status)}; its worker starts again.")
    return [ctypes.c_void_p(each) for each in made]


def allocate(size: int) -> int:
    """The address of memory on the current device that GPUs may be given for each other's use. It is not CuPy's, so
    what CuPy's pool keeps is not there for it. Raises OutOfDeviceMemory, DeviceFault, KernelUnavailable."""
    library, address = _library(), ctypes.c_void_p()
    status = library.ncclMemAlloc(ctypes.byref(address), ctypes.c_size_t(size))
    if status == CUDA_ERROR:
        raise OutOfDeviceMemory
    if status or address.value is None:
        raise DeviceFault(f"NCCL could not allocate memory: {_meaning(library, status)}; its worker starts again.")
    return address.value


def free(address: int) -> None:
    """Raises DeviceFault, KernelUnavailable."""
    library = _library()
    if status := library.ncclMemFree(ctypes.c_void_p(address)):
        raise DeviceFault(f"NCCL could not free memory: {_meaning(library, status)}; its worker starts again.")


def _library() -> Any:
    library = shared_object(*NAMES)
    if library is None:
        raise KernelUnavailable("NCCL is not installed on this worker; use another kernel.")
    return library


def _meaning(library: Any, status: int) -> str:
    library.ncclGetErrorString.restype = ctypes.c_char_p
    text = library.ncclGetErrorString(status)
    return text.decode() if text else f"status {status}"
