"""Device memory full of poison, so that an element that no kernel writes is seen."""

from __future__ import annotations

from worker.cuda.memory import DeviceMatrix, allocate, clear_padding
from worker.cuda.pitch import IN_GROUPS, Layout

POISON = 0xFF  # NaN in every float type, -1 in integers


def allocate_poisoned(layout: Layout) -> DeviceMatrix:
    """As `allocate`; padding that may take part in sums stays zero."""
    matrix = allocate(layout)
    if layout.dtype not in IN_GROUPS and layout.bytes:
        matrix.memory.memset_async(POISON, layout.bytes)
        clear_padding(matrix)
    return matrix
