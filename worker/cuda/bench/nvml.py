"""NVML's data about one GPU during a measurement. What NVML does not report is None, never an error. Names are those of
CUDA 13; for older drivers the older names are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

Value = TypeVar("Value")

# Cumulative nanoseconds that the clock was held down, by reason: they miss nothing between two looks. NVML's numbers of
# its fields NVML_FI_DEV_CLOCKS_EVENT_REASON_*, which older bindings do not name.
EVENT_REASONS = {"power_cap": 74, "sync_boost": 76, "sw_thermal": 269, "hw_thermal": 270, "power_brake": 271}
POWER_CAP = 0x4  # the bit among those that hold the clock down now


def answer_of(question: Callable[[], Value]) -> Value | None:
    """The answer to a query; None if NVML has none."""
    try:
        return question()
    except (pynvml.NVMLError, AttributeError):  # an older binding lacks the function
        return None


class Nvml:
    """One GPU, found by its UUID: NVML does not know CUDA_VISIBLE_DEVICES. For use by any thread."""

    def __init__(self, uuid: str | None) -> None:
        self._handle: Any = answer_of(lambda: _handle(uuid)) if uuid else None

    def ask(self, question: Callable[[Any], Value]) -> Value | None:
        """NVML's answer for this GPU; None if it does not know the GPU, the query or the answer."""
        return None if self._handle is None else answer_of(lambda: question(self._handle))

    def temperature_c(self) -> float | None:
        now = self.ask(lambda gpu: float(pynvml.nvmlDeviceGetTemperatureV(gpu, pynvml.NVML_TEMPERATURE_GPU)))
        if now is not None:
            return now
        return self.ask(lambda gpu: float(pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU)))

    def power_w(self) -> float | None:
        return self.ask(lambda gpu: pynvml.nvmlDeviceGetPowerUsage(gpu) / 1e3)

    def memory_clock_mhz(self) -> float | None:
        return self.ask(lambda gpu: float(pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM)))

    def default_clock_mhz(self) -> float | None:
        """The SM clock that the vendor rates the device for under sustained load."""
        return self.ask(
            lambda gpu: float(
                pynvml.nvmlDeviceGetClock(gpu, pynvml.NVML_CLOCK_GRAPHICS, pynvml.NVML_CLOCK_ID_APP_CLOCK_DEFAULT)
            )
        )

    def energy_mj(self) -> int | None:
        """Millijoules since the driver was loaded; refreshed every 20 to 100 ms."""
        return self.ask(lambda gpu: int(pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)))

    def event_reason_ns(self) -> dict[str, int]:
        """Nanoseconds by reason; reasons that the device does not count are left out."""
        fields = self.ask(lambda gpu: list(pynvml.nvmlDeviceGetFieldValues(gpu, list(EVENT_REASONS.values()))))
        named = zip(EVENT_REASONS, fields or (), strict=False)
        return {name: _integer(field) for name, field in named if field.nvmlReturn == pynvml.NVML_SUCCESS}

    def is_power_capped(self) -> bool:
        """Whether the software power cap holds the clock down now; False where NVML does not tell."""
        reasons = self.ask(lambda gpu: int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)))
        if reasons is None:
            reasons = self.ask(lambda gpu: int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)))
        return bool((reasons or 0) & POWER_CAP)

    def compute_processes(self) -> frozenset[int]:
        """Ids of the processes that compute on the device, as NVML sees them."""
        found = self.ask(lambda gpu: frozenset(int(each.pid) for each in _processes(gpu)))
        return found or frozenset()


def _handle(uuid: str) -> Any:
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetHandleByUUID(uuid)


def _processes(gpu: Any) -> list[Any]:
    return list(pynvml.nvmlDeviceGetComputeRunningProcesses(gpu))


def _integer(field: Any) -> int:
    """A field's value, which lies in the member of a union that its type names."""
    if field.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT:
        return int(field.value.uiVal)
    if field.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG:
        return int(field.value.ulVal)
    return int(field.value.ullVal)
