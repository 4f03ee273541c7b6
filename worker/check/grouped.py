"""A grouped product for its check: one product for each group, with the group's rows and matrix. So a row that was
multiplied by a neighbour's matrix is a wrong row of its group's product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.formats.elements import Array
from kernels.model.groups import Group
from worker.check.checkable import Checkable
from worker.check.elementwise import Operands
from worker.check.host_matrix import HostMatrix


@dataclass(frozen=True, slots=True)
class GroupedProduct:
    """`products`: the products of non-empty groups, in order. `elementwise` refers to the whole product."""

    products: Sequence[Checkable]
    elementwise: Operands


class PartOf(HostMatrix):
    """Some items and rows of a matrix, which is opened only when elements are read."""

    def __init__(self, whole: HostMatrix, items: slice, rows: slice) -> None:
        self._whole, self._at, self.dtype = whole, (items, rows), whole.dtype
        count, height, width = whole.shape
        self.shape = (len(range(count)[items]), len(range(height)[rows]), width)

    @property
    def array(self) -> Array:
        return self._whole.array[self._at]


def operands_of(group: Group, a: HostMatrix, b: HostMatrix) -> tuple[HostMatrix, HostMatrix]:
    """The operands of one group's product."""
    rows = slice(group.first_row, group.first_row + group.problem.m)
    return PartOf(a, slice(None), rows), PartOf(b, slice(group.index, group.index + 1), slice(None))
