"""The fastest hand-written kernel and the fastest library of the same accuracy side by side, as bars by size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.curves import rank, usable
from analysis.library import Library
from analysis.measurement import Measurement, size_of
from analysis.plots.looks import is_library
from analysis.plots.style import COLOURS, INK, panels, plain_numbers
from kernels.model.numerics import AccuracyName, DTypeName

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTION = (
    "Speed of the fastest hand-written kernel, which is named, beside the library's best line of the same accuracy. "
    "In parentheses: disturbed while it was measured."
)
MIN_SIZES, MAX_SIZES = 2, 9  # one size is described in words, and more than nine are drawn as lines
BAR = 0.38  # wide, where sizes are 1 apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """For one element type: the hand-written kernel and the library at each size."""

    dtype: DTypeName
    accuracy: AccuracyName | None
    pairs: tuple[tuple[Measurement, Measurement], ...]


def beside(measurements: Sequence[Measurement]) -> tuple[Beside, ...]:
    """Groups in which both were measured at a few sizes."""
    groups: dict[tuple[DTypeName, AccuracyName | None], list[Measurement]] = {}
    for each in filter(usable, measurements):
        groups.setdefault((each.dtype, each.accuracy), []).append(each)
    found = (_beside(dtype, accuracy, group) for (dtype, accuracy), group in groups.items())
    return tuple(one for one in found if MIN_SIZES <= len(one.pairs) <= MAX_SIZES)


def _beside(dtype: DTypeName, accuracy: AccuracyName | None, group: Sequence[Measurement]) -> Beside:
    own = [each for each in group if not is_library(each.kernel)]
    best = {  # the last of a size is the best
        size_of(each.m, each.n, each.k, each.batch): each
        for each in sorted(own, key=lambda each: (each.size, *rank(each)))
    }
    library = Library(group)
    pairs = tuple((each, line.same) for each in best.values() if (line := library.best(each)))
    return Beside(dtype=dtype, accuracy=accuracy, pairs=pairs)


def figure(shown: Sequence[Beside]) -> Figure:
    drawn, axes = panels([2.6] * len(shown))
    for place, each in zip(axes, shown, strict=True):
        _bars(place, each)
    return drawn


def _bars(axes: Axes, shown: Beside) -> None:
    kinds = (("fastest hand-written kernel", COLOURS[0], -BAR / 2), ("library", "#b8bfc6", BAR / 2))
    for kind, (label, colour, shift) in enumerate(kinds):
        of_kind = [pair[kind] for pair in shown.pairs]
        places = [place + shift for place in range(len(of_kind))]
        axes.bar(places, [each.gflops or 0.0 for each in of_kind], width=BAR, color=colour, label=label)
    top = max(each.gflops or 0.0 for pair in shown.pairs for each in pair)
    for place, (own, library) in enumerate(shown.pairs):
        higher = max(own.gflops or 0.0, library.gflops or 0.0)
        words = own.label if own.condition.is_clean else f"({own.label})"
        words += "" if library.condition.is_clean else "\n(library)"
        axes.text(place, higher + 0.02 * top, words, ha="center", fontsize=8, color=INK)
    axes.set_ylim(0, 1.12 * top)
    sizes = [size_of(own.m, own.n, own.k, own.batch) for own, _ in shown.pairs]
    axes.set_xticks(range(len(sizes)), labels=sizes)
    axes.set_xlabel("N (m = n = k)" if all(map(str.isdigit, sizes)) else "m×n×k")
    axes.set_ylabel("GFLOPS")
    axes.set_title(f"{shown.dtype}, {shown.accuracy} accuracy" if shown.accuracy else shown.dtype)
    axes.grid(visible=False, axis="x")
    axes.legend(loc="upper left")
    plain_numbers(axes.yaxis)
