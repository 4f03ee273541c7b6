"""Classifies the device's errors: out of memory, an unsupported call, or a fault after which the process must end."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import TracebackType

import cupy
from cupy_backends.cuda.libs import cublas

from jobs.errors import DeviceFault, KernelUnavailable, OutOfDeviceMemory

OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY
CUBLAS_ALLOC_FAILED = 3
CUBLAS_NOT_SERVED = (7, 15)  # invalid value, not supported: the call is refused and the device is well


class DeviceFaults(ContextDecorator):
    """Holds nothing, so one serves all."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is None:
            return
        if isinstance(error, cupy.cuda.memory.OutOfMemoryError):
            raise OutOfDeviceMemory from error
        if isinstance(error, cupy.cuda.runtime.CUDARuntimeError | cupy.cuda.driver.CUDADriverError):
            if error.status == OUT_OF_MEMORY:
                raise OutOfDeviceMemory from error
            raise _fault(error) from error
        if isinstance(error, cublas.CUBLASError):
            if error.status == CUBLAS_ALLOC_FAILED:
                raise OutOfDeviceMemory from error
            if error.status in CUBLAS_NOT_SERVED:
                raise KernelUnavailable("cuBLAS does not multiply operands of these types and sizes here.") from error
            raise _fault(error) from error


_faults = DeviceFaults()


def device_faults() -> DeviceFaults:
    """Raises OutOfDeviceMemory, KernelUnavailable, or DeviceFault: most other errors leave the context unusable."""
    return _faults


def _fault(error: Exception) -> DeviceFault:
    name = str(error).partition(":")[0]  # as in cudaErrorIllegalAddress
    return DeviceFault(f"The device reported {name}; its worker starts again.")
