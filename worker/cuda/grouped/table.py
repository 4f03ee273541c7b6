"""The table by which kernels find the group of a tile (kernels/cuda/common/tile_groups.cuh)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from jobs.formats.elements import Array
from kernels.model.groups import GroupTable


@dataclass(frozen=True, slots=True)
class TableOnDevice:
    """Copied there on the stream that was current, in front of the first launch that reads it. `source` is what the
    copy reads."""

    memory: Any
    source: Array

    @property
    def ptr(self) -> int:
        return int(self.memory.ptr)


def table_on_device(groups: GroupTable) -> tuple[TableOnDevice, ...]:
    """The table of groups on the device, as long as launches refer to it; empty without groups. The host does not wait,
    because the stream may be held. Raises cupy's OutOfMemoryError."""
    if not groups:
        return ()
    entries = np.array(groups, np.int32)
    memory = cupy.cuda.alloc(entries.nbytes)
    memory.copy_from_host_async(entries.ctypes.data, entries.nbytes, cupy.cuda.get_current_stream())
    return (TableOnDevice(memory, entries),)
