"""The state of a GPU now, as NVML tells it. What NVML does not report is unknown, never an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

from jobs.fleet.workers import Telemetry

Value = TypeVar("Value")

# NVML's names for the bits of its clock event reasons.
THROTTLE_REASONS = {
    0x1: "GpuIdle",
    0x2: "ApplicationsClocksSetting",
    0x4: "SwPowerCap",
    0x8: "HwSlowdown",
    0x10: "SyncBoost",
    0x20: "SwThermalSlowdown",
    0x40: "HwThermalSlowdown",
    0x80: "HwPowerBrakeSlowdown",
    0x100: "DisplayClockSetting",
}


class GpuTelemetry:
    """Reads one GPU, found by its UUID: NVML does not know CUDA_VISIBLE_DEVICES."""

    def __init__(self, uuid: str | None) -> None:
        self._handle: Any = _told(lambda: _handle(uuid)) if uuid else None

    def read(self) -> Telemetry:
        if self._handle is None:
            return Telemetry()
        handle = self._handle
        power_mw = _told(lambda: float(pynvml.nvmlDeviceGetPowerUsage(handle)))
        return Telemetry(
            temperature_c=_told(lambda: float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))),
            power_w=None if power_mw is None else power_mw / 1e3,
            clock_mhz=_told(lambda: float(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))),
            memory_free_bytes=_told(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).free)),
            throttle_reasons=_told(lambda: _reasons(handle)) or (),
        )


def driver_version() -> str | None:
    """The driver's version, such as 580.159.04; None without NVML."""
    return _told(_driver_version)


def uuid_at(pci_bus_id: str) -> str | None:
    """The GPU's own id, by its place on the bus."""
    return _told(lambda: _uuid(pci_bus_id))


def compute_capabilities() -> list[tuple[int, int]]:
    """The distinct compute capabilities of this machine's GPUs, oldest first; empty without NVML."""
    return sorted(set(_told(_compute_capabilities) or ()))


def _compute_capabilities() -> list[tuple[int, int]]:
    pynvml.nvmlInit()
    handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
    return [pynvml.nvmlDeviceGetCudaComputeCapability(handle) for handle in handles]


def _driver_version() -> str:
    pynvml.nvmlInit()
    return str(pynvml.nvmlSystemGetDriverVersion())


def _uuid(pci_bus_id: str) -> str:
    pynvml.nvmlInit()
    return str(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)))


def _handle(uuid: str) -> Any:
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetHandleByUUID(uuid)


def _reasons(handle: Any) -> tuple[str, ...]:
    bits = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return tuple(name for bit, name in THROTTLE_REASONS.items() if bits & bit)


def _told(question: Callable[[], Value]) -> Value | None:
    try:
        return question()
    except pynvml.NVMLError:
        return None
