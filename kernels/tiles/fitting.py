"""The possible plans of a product that fit on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kernels.model.numerics import Problem
from kernels.tiles.plan import SMALLEST, Side, Span, TileBytes, TilePlan, rows_of_parts, spans


def plans(
    problem: Problem, *, device_bytes: int, tile_bytes: Callable[[Problem], TileBytes], devices: int = 1
) -> Iterator[TilePlan]:
    """The plans that fit in `device_bytes` of each device, without those for which another fitting plan has larger
    tiles. Empty if even the smallest tiles do not fit because k is too large.
    """
    if problem.batch > 1 and (in_items := _by_items(problem, device_bytes, tile_bytes, devices)) is not None:
        yield in_items
        return
    items = spans(problem.batch, problem.batch)
    outers: tuple[Side, ...] = ("a", "b")
    for outer in outers:
        outer_size, inner_size = (problem.m, problem.n) if outer == "a" else (problem.n, problem.m)
        grain = rows_of_parts(problem, outer)
        for parts in _parts(outer_size, devices):
            for inner_parts in _inner_parts(inner_size):
                panels, inner = spans(outer_size, parts, grain), spans(inner_size, inner_parts)
                rows, columns = (panels, inner) if outer == "a" else (inner, panels)
                plan = TilePlan(problem, outer, devices, items, rows, columns)
                if tile_bytes(plan.largest.problem(problem)).needed <= device_bytes:
                    yield from _finer(plan, inner_size, inner_parts)
                    break


def _parts(size: int, devices: int) -> Iterator[int]:
    """Numbers of outer panels: multiples of the number of devices, few first."""
    parts = devices
    while parts == devices or size // parts >= SMALLEST:
        yield parts
        parts += max(1, parts // devices // 4) * devices


def _inner_parts(size: int) -> Iterator[int]:
    """Numbers of inner panels, few first, down to the smallest panels."""
    parts = 1
    yield parts
    while -(-size // parts) > SMALLEST:
        parts = max(parts + 1, parts * 5 // 4)
        yield parts


def _finer(plan: TilePlan, inner_size: int, fewest: int) -> Iterator[TilePlan]:
    """Plans with the same outer panels and with inner panels as large as fit, or smaller: with small ones a product
    begins sooner."""
    for factor in (1, 2, 4, 8):
        inner = spans(inner_size, fewest * factor)
        yield replace(plan, columns=inner) if plan.outer == "a" else replace(plan, rows=inner)
        if inner[0].size <= SMALLEST:
            return


def _by_items(
    problem: Problem, device_bytes: int, tile_bytes: Callable[[Problem], TileBytes], devices: int
) -> TilePlan | None:
    """A plan of whole matrices of the batch, as many as fit; None if one does not."""
    parts = devices
    while parts <= problem.batch:
        items = spans(problem.batch, parts)
        plan = TilePlan(problem, "a", devices, items, (Span(0, problem.m),), (Span(0, problem.n),))
        if tile_bytes(plan.largest.problem(problem)).needed <= device_bytes:
            return plan
        if items[0].size == 1:
            return None
        parts = max(parts + devices, parts * 5 // 4)
    return None
