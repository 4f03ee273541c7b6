"""How a curve looks, as numbers into a backend's colours, dashes and marks: a kernel looks the same in every plot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from analysis.curves import is_library
from kernels.catalog import BY_NAME, KERNEL_NAMES

__all__ = ["DASHES", "HUES", "MARKS", "Look", "is_library", "look_of", "looks"]

HUES, DASHES, MARKS = 7, 4, 11  # that every backend has


@dataclass(frozen=True, slots=True)
class Look:
    """`hue` is None for ink, in which libraries are drawn."""

    hue: int | None
    dash: int
    mark: int


def look_of(number: int, *, is_library: bool = False) -> Look:
    """Of the curve of that number: no two of HUES × DASHES × MARKS are alike."""
    dash = number if is_library else number // HUES
    return Look(None if is_library else number % HUES, dash % DASHES, number % MARKS)


def looks(curves: Iterable[tuple[str, str | None]]) -> dict[str, Look]:
    """By label, of labels with the kernels they stand for. A curve that bears a kernel's own name looks the same in
    every plot; the others take what is free."""
    kernels = dict(curves)
    taken = {label: KERNEL_NAMES.index(label) for label in kernels if label in BY_NAME}
    free = (number for number in count() if number not in taken.values())
    return {
        label: look_of(taken[label] if label in taken else next(free), is_library=is_library(kernel))
        for label, kernel in kernels.items()
    }
