"""The GPU's properties, and the theoretical roofs that follow from them."""

from __future__ import annotations

import cupy
from cupy_backends.cuda.libs import cublas, nvrtc

from jobs.fleet.workers import Ceilings, DeviceInfo
from worker.cuda.gpu.peaks import memory_gb_s, peak_gflops
from worker.cuda.gpu.telemetry import driver_version, uuid_at


def cuda_info(index: int) -> DeviceInfo:
    """The one GPU this process sees; `index` is the one it was asked for by. Raises cupy's CUDARuntimeError."""
    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(0)
    capability = (_attribute("ComputeCapabilityMajor"), _attribute("ComputeCapabilityMinor"))
    multiprocessors = _attribute("MultiProcessorCount")
    clock_khz, memory_khz = _attribute("ClockRate"), _attribute("MemoryClockRate")
    bus_bits = _attribute("GlobalMemoryBusWidth")
    return DeviceInfo(
        name=properties["name"].decode(),
        device_class="gpu",
        index=index,
        uuid=uuid_at(runtime.deviceGetPCIBusId(0)),
        compute_capability=capability,
        multiprocessors=multiprocessors,
        memory_bytes=int(properties["totalGlobalMem"]),
        shared_bytes_per_block=_attribute("MaxSharedMemoryPerBlockOptin"),
        registers_per_block=_attribute("MaxRegistersPerBlock"),
        l2_bytes=_attribute("L2CacheSize"),
        max_clock_mhz=clock_khz // 1000 or None,
        memory_clock_mhz=memory_khz // 1000 or None,
        memory_bus_bits=bus_bits or None,
        theoretical=Ceilings(
            memory_gb_s=memory_gb_s(memory_khz, bus_bits),
            gflops=peak_gflops(capability, multiprocessors, clock_khz),
        ),
        versions=_versions(),
    )


# Numbers of cudaDeviceAttr: those that CuPy does not name are given here, so all are.
_ATTRIBUTES = {
    "MaxRegistersPerBlock": 12,
    "ClockRate": 13,
    "MultiProcessorCount": 16,
    "MemoryClockRate": 36,
    "GlobalMemoryBusWidth": 37,
    "L2CacheSize": 38,
    "ComputeCapabilityMajor": 75,
    "ComputeCapabilityMinor": 76,
    "MaxSharedMemoryPerBlockOptin": 97,
}


def _attribute(name: str) -> int:
    return int(cupy.cuda.runtime.deviceGetAttribute(_ATTRIBUTES[name], 0))


def _versions() -> dict[str, str]:
    runtime = cupy.cuda.runtime
    versions = {
        "cuda_driver_api": _dotted(runtime.driverGetVersion()),
        "cuda_runtime": _dotted(runtime.runtimeGetVersion()),
        "nvrtc": ".".join(map(str, nvrtc.getVersion())),
        "cublas": _cublas_version(),
        "cupy": str(cupy.__version__),
    }
    driver = driver_version()
    return versions | ({"driver": driver} if driver else {})


def _dotted(version: int) -> str:
    """13000 is 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _cublas_version() -> str:
    """The version as text, such as 13.1.0 for the number 130100."""
    version = int(cublas.getVersion(cupy.cuda.get_cublas_handle()))
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"
