"""The environment of a GPU's figures: the device's configuration, and the software. Unknown is null."""

from __future__ import annotations

import platform
from typing import Any

import pynvml

from jobs.fleet.workers import DeviceInfo
from worker.cpu.environment import host_environment
from worker.cuda.bench.nvml import Nvml

ON = pynvml.NVML_FEATURE_ENABLED


def cuda_environment(device: DeviceInfo) -> dict[str, Any]:
    """Device, limits, clocks in MHz, link, versions, and the host's part. Raises cupy's CUDARuntimeError."""
    nvml = Nvml(device.uuid)
    return host_environment() | {
        "gpu": device.name,
        "uuid": device.uuid,
        "compute_capability": device.compute_capability,
        "multiprocessors": device.multiprocessors,
        "l2_bytes": device.l2_bytes,
        "memory_bytes": device.memory_bytes,
        "memory_bus_bits": device.memory_bus_bits,
        "clocks_mhz": _clocks_mhz(nvml, device),
        "power_limit_w": nvml.ask(lambda gpu: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1e3),
        "ecc": nvml.ask(lambda gpu: pynvml.nvmlDeviceGetEccMode(gpu)[0] == ON),
        "mig": nvml.ask(lambda gpu: pynvml.nvmlDeviceGetMigMode(gpu)[0] == pynvml.NVML_DEVICE_MIG_ENABLE),
        "persistence_mode": nvml.ask(lambda gpu: pynvml.nvmlDeviceGetPersistenceMode(gpu) == ON),
        "pcie": pcie(nvml),
        "architecture": platform.machine(),
        "versions": device.versions,
    }


def _clocks_mhz(nvml: Nvml, device: DeviceInfo) -> dict[str, float | None]:
    """`target` is what the clock is set to, and differs from `default` where somebody set it."""
    graphics, memory = pynvml.NVML_CLOCK_GRAPHICS, pynvml.NVML_CLOCK_MEM
    target = pynvml.NVML_CLOCK_ID_APP_CLOCK_TARGET
    return {
        "sm_max": nvml.ask(lambda gpu: float(pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM))),
        "sm_rated": float(device.max_clock_mhz) if device.max_clock_mhz else None,
        "sm_default": nvml.default_clock_mhz(),
        "sm_target": nvml.ask(lambda gpu: float(pynvml.nvmlDeviceGetClock(gpu, graphics, target))),
        "memory_max": nvml.ask(lambda gpu: float(pynvml.nvmlDeviceGetMaxClockInfo(gpu, memory))),
        "memory": nvml.memory_clock_mhz(),
    }


def pcie(nvml: Nvml) -> dict[str, int | None]:
    """Generation and lanes, now (an idle device slows its link down) and at most."""
    return {
        "generation": nvml.ask(lambda gpu: int(pynvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu))),
        "generation_max": nvml.ask(lambda gpu: int(pynvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu))),
        "lanes": nvml.ask(lambda gpu: int(pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu))),
        "lanes_max": nvml.ask(lambda gpu: int(pynvml.nvmlDeviceGetMaxPcieLinkWidth(gpu))),
    }
