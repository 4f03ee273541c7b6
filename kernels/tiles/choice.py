"""Decides whether a product must be computed in tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kernels.model.numerics import Problem
from kernels.tiles.plan import SMALLEST, TileBytes


def whole_bytes(problem: Problem, tile_bytes: Callable[[Problem], TileBytes], has_epilogue: bool) -> int:
    """The device memory of a product that is computed whole; with alpha and beta there are A·B and the result, and C in
    addition.
    """
    needed = tile_bytes(problem)
    return needed.a + needed.b + needed.c * (3 if has_epilogue else 1) + needed.beside


def with_epilogue(tile_bytes: Callable[[Problem], TileBytes]) -> Callable[[Problem], TileBytes]:
    """The bytes of a tile of alpha·A·B + beta·C: with a tile of C, and a place for A·B."""

    def more(problem: Problem) -> TileBytes:
        of_tile = tile_bytes(problem)
        return replace(of_tile, beside=of_tile.beside + of_tile.c, added=of_tile.c)

    return more


def too_deep(problem: Problem, device_bytes: int) -> str:
    """A sentence saying why a product that is too large cannot be computed in tiles either."""
    return (
        f"k is {problem.k}: not even {SMALLEST} rows of A and {SMALLEST} columns of B fit twice into the "
        f"{device_bytes} bytes that a product may take on the device; cut k into several products and add these up."
    )
