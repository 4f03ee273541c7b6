"""Whether a product has to be computed in tiles."""

from __future__ import annotations

from collections.abc import Callable

from kernels.model.numerics import Problem
from kernels.tiles.plan import SMALLEST, TileBytes


def whole_bytes(problem: Problem, tile_bytes: Callable[[Problem], TileBytes], has_epilogue: bool) -> int:
    """Memory of a device that the product takes where it is computed whole; with alpha and beta it is there twice, and
    C besides."""
    needed = tile_bytes(problem)
    return needed.a + needed.b + needed.c * (3 if has_epilogue else 1) + needed.beside


def too_deep(problem: Problem, device_bytes: int, *, has_epilogue: bool) -> str:
    """Why a product that is too large cannot be computed in tiles, as a sentence."""
    if has_epilogue:
        return (
            f"The product needs more than the {device_bytes} bytes that it may take on the device, and with alpha, "
            "beta or C it is not computed in tiles; leave them out, or make it smaller."
        )
    return (
        f"k is {problem.k}: not even {SMALLEST} rows of A and {SMALLEST} columns of B fit twice into the "
        f"{device_bytes} bytes that a product may take on the device; cut k into several products and add these up."
    )
