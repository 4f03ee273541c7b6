"""How much memory the embedded Redis may use."""

from __future__ import annotations

import os
from pathlib import Path

from jobs.settings import Settings

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
SHARE = 4  # of the machine's memory: one part in so many
MIN_BYTES = 64 << 20


def machine_bytes(cgroup_limit: Path = CGROUP_LIMIT) -> int:
    """The memory of the machine, or of the container that this runs in."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = cgroup_limit.read_text().strip()
    except OSError:
        return found
    return min(found, int(limit)) if limit.isdecimal() else found


def memory_options(settings: Settings) -> tuple[str, ...]:
    """Memory options for an embedded server. When full, it refuses writes and evicts nothing."""
    max_bytes = settings.redis_bytes or max(machine_bytes() // SHARE, MIN_BYTES)
    return (f"maxmemory {max_bytes}",)
