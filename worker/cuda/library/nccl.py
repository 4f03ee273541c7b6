"""NCCL, which carries what GPUs send each other: the few functions needed, by ctypes.

Names are those of nccl.h. A communicator has a rank for each GPU of this process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from jobs.errors import DeviceFault, KernelUnavailable
from worker.cuda.library.shared_objects import shared_object

NAMES = ("libnccl.so.2",)


def version() -> str | None:
    """The library's version; None if it is not installed."""
    library, number = shared_object(*NAMES), ctypes.c_int()
    if library is None or library.ncclGetVersion(ctypes.byref(number)):
        return None
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


def communicators(devices: Sequence[int]) -> list[ctypes.c_void_p]:
    """A communicator for each device, in order; waits for all of them. Raises DeviceFault, KernelUnavailable."""
    library = shared_object(*NAMES)
    if library is None:
        raise KernelUnavailable("NCCL is not installed on this worker; use another kernel.")
    made = (ctypes.c_void_p * len(devices))()
    status = library.ncclCommInitAll(made, len(devices), (ctypes.c_int * len(devices))(*devices))
    if status:
        raise DeviceFault(f"NCCL could not connect the GPUs: {_meaning(library, status)}; its worker starts again.")
    return [ctypes.c_void_p(each) for each in made]


def _meaning(library: Any, status: int) -> str:
    library.ncclGetErrorString.restype = ctypes.c_char_p
    text = library.ncclGetErrorString(status)
    return text.decode() if text else f"status {status}"
