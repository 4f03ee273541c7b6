"""What goes wrong on the device of `faulty_gpu`, by the depth of the product."""

from __future__ import annotations

from pathlib import Path

# Depths of products: memory runs out once at the operands, the product, the workspace; and what else goes wrong.
FULL_AT_OPERAND, FULL_AT_PRODUCT, FULL_AT_WORKSPACE = 301, 303, 304
HUNGRY, POISONS_ONCE, HANGS, WRITES_HALF, VANISHES, IS_WRONG_HERE = range(401, 407)
ALLOCATION = {FULL_AT_OPERAND: 1, FULL_AT_PRODUCT: 2, FULL_AT_WORKSPACE: 3}  # which one fails
FREE_BYTES = 1 << 36


def mark_of(directory: Path, name: str) -> str:
    """The process number of that worker."""
    return (directory / name).read_text()
