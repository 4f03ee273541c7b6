"""Which measurements of other workers apply to a device."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from jobs.fleet.workers import DeviceInfo
from kernels.digest import files_digest, kernels_digest

LAUNCH_SOURCES = Path(__file__).parent.parent / "cuda"  # what launches kernels, and what runs beside them


def measured_model(device: DeviceInfo) -> str:
    """A name that is equal for devices whose kernels are equally fast: same model, driver, libraries and kernels."""
    name = "-".join(re.findall("[a-z0-9]+", device.name.lower()))
    sources = kernels_digest(), files_digest(LAUNCH_SOURCES, ("**/*.py", "src/*"))
    known = json.dumps([*sources, sorted(device.versions.items())])
    digest = hashlib.sha256(known.encode()).hexdigest()[:16]
    return f"{name}:{device.versions.get('driver', 'unknown')}:{digest}"
