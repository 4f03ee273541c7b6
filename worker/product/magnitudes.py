"""The largest and the smallest magnitude of an operand, measured in one pass over its elements."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import numpy as np

from jobs.formats.elements import Array
from kernels.model.bounds import Magnitudes
from kernels.model.numerics import DTYPES, DTypeName
from worker.check.elements import as_float64
from worker.device.operands import HostOperand

CHUNK = 1 << 17  # elements looked at together, in a core's cache
KEPT = 4096  # operands
# Bits of a magnitude from which on they are no finite number.
_NOT_FINITE: dict[DTypeName, int] = {
    "float16": 0x7C00,
    "bfloat16": 0x7F80,
    "float32": 0x7F80_0000,
    "float64": 0x7FF0_0000_0000_0000,
    "float8_e4m3": 0x7F,
}


def magnitudes_of(elements: Array, dtype: DTypeName) -> Magnitudes:
    """The largest and the smallest nonzero magnitude of floats. Their bits, read as integers, are in the same order."""
    size = DTYPES[dtype].itemsize
    bits = elements.reshape(-1).view(np.dtype(f"u{size}"))
    one, magnitude = bits.dtype.type(1), bits.dtype.type((1 << (8 * size - 1)) - 1)
    largest, smallest = 0, int(magnitude)
    for start in range(0, bits.size, CHUNK):
        chunk = bits[start : start + CHUNK] & magnitude
        if int(chunk.max()) >= _NOT_FINITE[dtype]:
            chunk = chunk[chunk < _NOT_FINITE[dtype]]
        if chunk.size:
            largest = max(largest, int(chunk.max()))
            smallest = min(smallest, int((chunk - one).min()) + 1)  # zeros come out as the largest of all
    if largest == 0:
        return Magnitudes(0.0, np.inf)
    ends = as_float64(np.array([largest, smallest], bits.dtype).view(elements.dtype), dtype)
    return Magnitudes(float(ends[0]), float(ends[1]))


class MeasuredMagnitudes:
    """Measures each operand once, if its id names its contents. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[str, Magnitudes] = OrderedDict()

    def of(self, operand: HostOperand, dtype: DTypeName) -> Magnitudes:
        """Raises OperandMissing."""
        with self._lock:
            known = self._known.get(operand.id) if operand.id is not None else None
        if known is not None:
            return known
        magnitudes = magnitudes_of(operand.elements, dtype)
        if operand.id is not None:
            with self._lock:
                self._known[operand.id] = magnitudes
                if len(self._known) > KEPT:
                    self._known.popitem(last=False)
        return magnitudes
