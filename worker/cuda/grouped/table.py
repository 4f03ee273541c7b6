"""The table by which kernels find the group of a tile (kernels/cuda/common/tile_groups.cuh)."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from kernels.model.groups import GroupTable


def table_on_device(groups: GroupTable) -> tuple[Any, ...]:
    """Its memory, for as long as launches refer to it; nothing without groups. It is there when this returns, for any
    stream. Raises cupy's OutOfMemoryError."""
    if not groups:
        return ()
    entries = np.array(groups, np.int32)
    memory = cupy.cuda.alloc(entries.nbytes)
    memory.copy_from_host(entries.ctypes.data, entries.nbytes)
    return (memory,)
