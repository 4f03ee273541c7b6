"""The host part of a benchmark's environment: processor, system, versions. Unknown is null."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from worker.cpu.device import model_name

PROJECT = "matmul-service"
# Files that container engines leave in a container.
CONTAINER_MARKS = {"docker": Path("/.dockerenv"), "podman": Path("/run/.containerenv")}
VARIABLES = ("NVIDIA_TF32_OVERRIDE",)  # that change how libraries compute, beside CuPy's own
VARIABLE_PREFIXES = ("CUPY_",)


def host_environment() -> dict[str, Any]:
    """Processor, cores, kernel release, container, versions of what runs here, and variables that change results."""
    return {
        "cpu": model_name(),
        "cores": os.cpu_count(),
        "kernel_release": platform.release(),
        "container": container(),
        "python": platform.python_version(),
        "numpy": str(np.__version__),
        "project": installed_version(PROJECT),
        "variables": variables(os.environ),
    }


def container() -> str | None:
    """The container engine, as far as it can be detected from inside; null if none is detected."""
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    return next((engine for engine, mark in CONTAINER_MARKS.items() if mark.exists()), None)


def dated_environment(*packages: str) -> dict[str, Any]:
    """The environment for a record that no benchmark job writes, with the time (UTC, ISO 8601) and versions of
    packages."""
    versions = {name: installed_version(name) for name in packages}
    return host_environment() | {"recorded_at": datetime.now(UTC).isoformat(timespec="seconds"), "versions": versions}


def installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def variables(environment: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    """The environment variables that are set and change how a library computes."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name in VARIABLES or name.startswith(VARIABLE_PREFIXES)
    }
