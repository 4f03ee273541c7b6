"""8-bit operands with block scales, as a device's worker has them (`kernels/model/scales.py`)."""

from __future__ import annotations

import numpy as np

from jobs.errors import OperandOutOfRange
from jobs.formats.elements import Array
from jobs.matrices.slot_memory import SlotMemory
from kernels.model.scales import LARGEST_SCALE, SMALLEST_SCALE, Block
from worker.check.elements import core
from worker.check.views.scaled import ScaledMatrix
from worker.device.operands import HostOperand


class ScaledOperand(HostOperand):
    """`stored`, and its scales, one for each `block` of its elements as they are stored. Its id is that of the elements
    alone: a device keeps those."""

    def __init__(self, stored: HostOperand, scales: HostOperand, block: Block) -> None:
        self.id = stored.id
        self.shape = stored.shape
        self.stored, self.scales, self.block = stored, scales, block

    @property
    def elements(self) -> Array:
        return self.stored.elements

    @property
    def digest(self) -> int | None:
        return self.stored.digest

    @property
    def memory(self) -> SlotMemory | None:
        return self.stored.memory

    @property
    def expected_digest(self) -> int:
        return self.stored.expected_digest

    def known_digest(self, digest: int) -> None:
        self.stored.known_digest(digest)

    @property
    def parts(self) -> tuple[HostOperand, ...]:
        return self.stored, self.scales

    def matrix(self, *, transposed: bool) -> ScaledMatrix:
        """The scaled matrix as the product takes it."""
        rows, columns = self.block
        block = (columns, rows) if transposed else self.block
        elements, scales = (core(each.elements, transposed=transposed) for each in self.parts)
        return ScaledMatrix(elements, scales, block)


def scales_by_stage(operand: ScaledOperand, *, along_rows: bool, transposed: bool, is_repeated: bool) -> Array:
    """(items, stages of k, lines): of A, whose lines are rows, or of B. `is_repeated`: where 128 lines share a scale it
    stands there for each."""
    scales = core(operand.scales.elements, transposed=transposed != along_rows)
    if not is_repeated or (width := min(operand.block)) == 1:
        return scales
    lines = core(operand.elements, transposed=transposed).shape[1 if along_rows else 2]
    return scales.repeat(width, axis=2)[:, :, :lines]


def check_values(name: str, scales: Array) -> None:
    """Raises OperandOutOfRange."""
    sizes = np.abs(scales)
    wrong = ~((sizes == 0) | ((sizes >= SMALLEST_SCALE) & (sizes <= LARGEST_SCALE)))
    if wrong.any():
        where = tuple(int(index) for index in np.argwhere(wrong)[0])
        raise OperandOutOfRange(
            f"scale_{name}{list(where)} is {float(scales[where]):g}; a scale must be 0, or of a magnitude from 2^-60 "
            "to 2^60."
        )
