"""The element types in which a product may be delivered, and the type in which its operands are then multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from kernels.model.numerics import DTYPES, DTypeName, Problem

# These are multiplied as float32 where the product is to be float32: both hold every number of theirs.
WIDENED: tuple[DTypeName, ...] = ("float16", "bfloat16")
SHORTER: dict[DTypeName, tuple[DTypeName, ...]] = {
    "float64": ("float32", "float16", "bfloat16"),
    "float32": ("float16", "bfloat16"),
}


@dataclass(frozen=True, slots=True)
class Delivered:
    """The product as delivered to the caller."""

    dtype: DTypeName
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return prod(self.shape) * DTYPES[self.dtype].itemsize


def outputs_of(dtype: DTypeName) -> tuple[DTypeName, ...]:
    """The output types for such operands, the default first."""
    product = DTYPES[dtype].product
    return (product, *(("float32",) if dtype in WIDENED else ()), *SHORTER.get(product, ()))


def multiplied_as(dtype: DTypeName, output: DTypeName | None) -> DTypeName:
    """The element type of the problem that is computed."""
    return "float32" if output == "float32" and dtype in WIDENED else dtype


def delivered_of(problem: Problem, output: DTypeName | None) -> Delivered:
    return Delivered(output or problem.product_dtype, problem.product_shape)
