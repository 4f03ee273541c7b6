"""What a recorded result was measured on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("celery", "cupy-cuda13x", "fastapi", "numpy", "redis", "starlette", "uvicorn")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def environment() -> dict[str, Any]:
    """Date, processor, Python and package versions; unknown is null."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return {
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }
