"""How kernels that use bulk tensor copies (TMA) describe their boxes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernels.model.numerics import DTYPES, DTypeName


@dataclass(frozen=True, slots=True)
class Thin:
    """The last few rows and columns of C, where a kernel itself multiplies them in another way than its tiles. It is
    given maps of both operands for this box, after those of the matrices, and after the sizes where these begin."""

    box: tuple[int, int]
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Boxes:
    """The box that one bulk tensor copy moves of each matrix, swizzled if rows have 128 or 64 bytes: (rows, columns)
    in elements, as stored, after operands in the wrong layout have been transposed.
    """

    a: tuple[int, int]
    b: tuple[int, int]
    c: tuple[int, int]
    wanted: tuple[bool, bool] | None = None  # transpose_a and transpose_b as the kernel needs them; None: as they come
    to_tf32: bool = False  # copies of float32 operands round them on their way
    thin: Thin | None = None
    c_row: tuple[int, int] | None = None  # of a grouped product, what is stored where a group ends within a box of C

    def delivering(self, product: DTypeName, output: DTypeName) -> Boxes:
        """The same boxes for a C whose elements have another size: rows of as many bytes."""
        rows, columns = self.c
        return replace(self, c=(rows, columns * DTYPES[product].itemsize // DTYPES[output].itemsize))
