"""A grouped product as its check asks for it: one product for each group, with the rows and the matrix that are its
own. So a row that was multiplied by its neighbour's matrix is a wrong row of its group's product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.formats.elements import Array
from kernels.model.groups import Group
from worker.check.checked import Checkable
from worker.check.elementwise import Operands
from worker.check.host_matrix import HostMatrix


@dataclass(frozen=True, slots=True)
class GroupedProduct:
    """`products`: of the groups that have rows, in their order. `elementwise` is of the whole."""

    products: Sequence[Checkable]
    elementwise: Operands


class PartOf(HostMatrix):
    """Items and rows of a matrix that is opened where elements are asked for."""

    def __init__(self, whole: HostMatrix, items: slice, rows: slice) -> None:
        self._whole, self._at, self.dtype = whole, (items, rows), whole.dtype
        count, height, width = whole.shape
        self.shape = (len(range(count)[items]), len(range(height)[rows]), width)

    @property
    def array(self) -> Array:
        return self._whole.array[self._at]


def operands_of(group: Group, a: HostMatrix, b: HostMatrix) -> tuple[HostMatrix, HostMatrix]:
    """Of a group's own product."""
    rows = slice(group.first_row, group.first_row + group.problem.m)
    return PartOf(a, slice(None), rows), PartOf(b, slice(group.index, group.index + 1), slice(None))
