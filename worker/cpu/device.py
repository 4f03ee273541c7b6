"""The CPU as a device: its name, and how much of its cores and memory this process may use."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

from jobs.fleet.workers import DeviceInfo

CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")  # cpu.max there is "<microseconds> <period>", or "max <period>"


def cpu_info(threads: int) -> DeviceInfo:
    """The description of this host's CPU for `/v1/devices`, used with `threads` BLAS threads."""
    return DeviceInfo(
        name=model_name(),
        device_class="cpu",
        cores=threads,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        versions={"python": platform.python_version(), "numpy": np.__version__} | _blas_versions(),
    )


def usable_cores() -> int:
    """Cores this process may run on, within a container's limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _cgroup_cores() or cores))


def available_bytes() -> int | None:
    """The memory that this process could still use without displacing others; None if unknown."""
    free = _kilobytes(MEMINFO, "MemAvailable:")
    limit, used = _cgroup_memory()
    left = [amount for amount in (free, limit - used if limit is not None else None) if amount is not None]
    return min(left, default=None)


def _cgroup_memory() -> tuple[int | None, int]:
    """A container's memory limit, and its use without file caches, which can be reclaimed."""
    try:
        limit = int((CGROUP / "memory.max").read_text())  # "max" is no number: no limit
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return limit, int(stat["anon"]) + int(stat["shmem"])
    except (OSError, ValueError, KeyError):
        return None, 0


def _kilobytes(path: Path, name: str) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(name)), None)


def _cgroup_cores() -> int | None:
    try:
        quota, period = (CGROUP / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else math.ceil(int(quota) / int(period))


def model_name() -> str:
    """The processor's name according to Linux."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine() or "CPU"


def _blas_versions() -> dict[str, str]:
    return {info["internal_api"]: str(info["version"]) for info in threadpool_info() if info["user_api"] == "blas"}
