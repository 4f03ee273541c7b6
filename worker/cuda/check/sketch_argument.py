"""The argument of the sketch's kernel: what depends on how the matrices lie alone, and is kept for the next product of
that kind, and what each launch sets. `sketch.py` adds the addresses.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName
from worker.cuda.check.matrices import CheckedMatrices
from worker.cuda.check.sketch_plan import Geometry, SketchPlan, can_digest, plan
from worker.cuda.digests.launch import Place

PARAMETER_WORDS = 8  # of the argument, its last: what `SketchParameters` has
NO_DIGESTS = (False, False, False)


class SketchParameters(NamedTuple):
    """The parameters of a sketch, besides its matrices. `seed` has 128 random bits."""

    seed: int = 0
    floor2: float = 0.0  # the square of `Rounding.floor`
    common: bool = False  # columns of B are scaled alike, by the largest; not for float64
    wraps: bool = False  # integers: sums may pass 32 bits, so projections are compared modulo 2³²
    tolerance: tuple[float, float, float] = (0.0, 0.0, 0.0)  # `Rounding.tolerance_factors`
    fused: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)  # `Rounding.fused_factors`


class SketchedLayouts(NamedTuple):
    """How A, B and C lie, and the columns of a group: what a geometry follows from."""

    dtype: DTypeName
    output: DTypeName
    transposed: tuple[bool, bool]
    a: tuple[int, int, int]
    b: tuple[int, int, int]
    c: tuple[int, int, int]
    width: int


def layouts_of(matrices: CheckedMatrices, width: int) -> SketchedLayouts:
    a, b, c = matrices
    return SketchedLayouts(a.dtype, c.dtype, (a.transposed, b.transposed), a.shape, b.shape, c.shape, width)


@lru_cache(maxsize=256)
def can_digest_layouts(layouts: SketchedLayouts) -> tuple[bool, bool, bool]:
    """Which of A, B and C a sketch can digest if their rows begin at multiples of 16 bytes."""
    return can_digest(_geometry(layouts, 1, NO_DIGESTS))


class SketchPlaces(NamedTuple):
    """Where results lie in a sketch's memory: in bytes, and in words from the first digest on."""

    worst: int
    digests: int
    parts: list[Place]


@lru_cache(maxsize=256)
def plan_argument(
    layouts: SketchedLayouts,
    masks: int,
    digested: tuple[bool, bool, bool],
    pitches: tuple[int, int, int],
    strides: tuple[int, int, int],
) -> tuple[SketchPlan, Array, SketchPlaces]:
    """The plan, and the kernel's argument without addresses: it begins with four, and has offsets in the place of those
    in the sketch's own memory. `masks`: items of the mask of excluded columns, or 1."""
    planned = plan(_geometry(layouts, masks, digested))
    words = [*[0] * 4, *planned.offsets, layouts.c[1], layouts.c[2], layouts.a[2], *pitches, *strides, *planned.numbers]
    begin = planned.offset("parts_a")
    at = (planned.offset(f"parts_{name}") - begin for name in "abc")
    parts = [Place(place // 8, count) for place, count in zip(at, planned.parts, strict=True) if count]
    template = np.array([*words, *[0] * PARAMETER_WORDS], np.uint64)
    return planned, template, SketchPlaces(planned.offset("worst"), begin, parts)


def _geometry(layouts: SketchedLayouts, masks: int, digested: tuple[bool, bool, bool]) -> Geometry:
    (batch, m, n), k = layouts.c, layouts.a[2]
    items = (batch, layouts.a[0], layouts.b[0], max(layouts.b[0], masks))
    return Geometry(
        layouts.dtype, layouts.transposed, m, n, k, *items, min(layouts.width, n), digested, output=layouts.output
    )
