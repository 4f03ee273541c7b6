"""Which kernel wins: each kernel's share of the library's speed at each size, as a grid of cells; as bars for a single
size.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from analysis.curves import curves, rank
from analysis.library import baseline_fractions, beside_disturbed_library
from analysis.measurement import Measurement, size_of
from analysis.plots.looks import is_library
from analysis.plots.style import COLOURS, FAINT, INK, panels
from kernels.catalog import KERNEL_NAMES
from kernels.model.numerics import DTypeName

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTION = (
    "Who wins: speed in % of the library's best line of the same accuracy at the same size. Framed, "
    "underlined or dark: the fastest hand-written kernel there. In parentheses: disturbed while it or the library was "
    "measured."
)
MAX_WITH_FIGURES = 12  # sizes; with more, cells have no room for a number
FULL_COLOUR = 120.0  # % at which a cell has its full colour
DARK = 75.0  # % above which a cell needs white letters
ROOM_FOR_LETTERS, SLANT_IN = 60, 0.8  # letters of sizes along the x axis; height of rotated labels
MAX_LABELS = 56  # of sizes that stand side by side, rotated; of more only some are named
PALE = "#9ec3dd"


@dataclass(frozen=True, slots=True)
class Share:
    """A share of the library's speed, in %."""

    percent: float
    is_best: bool  # the best of the clean ones at that size
    is_clean: bool  # neither it nor the library's was disturbed

    @property
    def words(self) -> str:
        return f"{self.percent:.0f}" if self.is_clean else f"({self.percent:.0f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Winners:
    """For one element type. `cells`: by kernel and size; None if it was not measured there."""

    dtype: DTypeName
    kernels: tuple[str, ...]
    sizes: tuple[str, ...]
    cells: tuple[tuple[Share | None, ...], ...]


def winners(measurements: Sequence[Measurement]) -> tuple[Winners, ...]:
    """One for each element type in which kernels were measured together with a library."""
    ratios = zip(measurements, baseline_fractions(measurements), strict=True)
    shares = {id(each): 100 * ratio for each, ratio in ratios if ratio is not None}
    points = [
        point
        for curve in curves(measurements)
        for point in curve.points
        if id(point) in shares and not is_library(point.kernel)
    ]
    doubtful = beside_disturbed_library(measurements)
    dtypes = dict.fromkeys(point.dtype for point in points)
    return tuple(
        _winners(dtype, [point for point in points if point.dtype == dtype], shares, doubtful) for dtype in dtypes
    )


def _winners(
    dtype: DTypeName, points: Sequence[Measurement], shares: Mapping[int, float], doubtful: Collection[int]
) -> Winners:
    order = {name: place for place, name in enumerate(KERNEL_NAMES)}
    kernels = sorted({point.label for point in points}, key=lambda label: (order.get(label, len(order)), label))
    sizes = list(dict.fromkeys(_size(point) for point in sorted(points, key=lambda point: point.size)))
    best: dict[str, Measurement] = {}
    for point in points:
        size = _size(point)
        if point.condition.is_clean and (size not in best or rank(point) > rank(best[size])):
            best[size] = point
    placed = {(point.label, _size(point)): point for point in points}

    def cell(kernel: str, size: str) -> Share | None:
        point = placed.get((kernel, size))
        if point is None:
            return None
        is_clean = point.condition.is_clean and id(point) not in doubtful
        return Share(shares[id(point)], point is best.get(size), is_clean)

    cells = tuple(tuple(cell(kernel, size) for size in sizes) for kernel in kernels)
    return Winners(dtype=dtype, kernels=tuple(kernels), sizes=tuple(sizes), cells=cells)


def _size(point: Measurement) -> str:
    return size_of(point.m, point.n, point.k, point.batch)


def figure(shown: Sequence[Winners]) -> Figure:
    """A grid for each element type, or bars if there is only one size."""
    drawn, axes = panels([0.85 + 0.185 * len(each.kernels) + SLANT_IN * _is_slanted(each) for each in shown])
    for place, each in zip(axes, shown, strict=True):
        place.set_title(each.dtype if len(each.sizes) > 1 else f"{each.dtype}, {each.sizes[0]}")
        place.set_yticks(range(len(each.kernels)), labels=each.kernels)
        place.grid(visible=False)
        if len(each.sizes) == 1:
            _bars(place, each)
        else:
            _field(place, each)
        place.invert_yaxis()
    return drawn


def _bars(axes: Axes, shown: Winners) -> None:
    values = [row[0].percent if row[0] else 0.0 for row in shown.cells]
    colours = [COLOURS[0] if row[0] and row[0].is_best else PALE for row in shown.cells]
    axes.barh(range(len(values)), values, color=colours, height=0.66)
    for place, (cell,) in enumerate(shown.cells):
        axes.text(values[place], place, f" {cell.words if cell else '–'} %", va="center", fontsize=8.5, color=INK)
    axes.axvline(100, color=FAINT, linewidth=1)
    axes.set_xlim(0, 1.15 * max(100.0, *values))
    axes.set_xlabel("% of the library's speed")


def _field(axes: Axes, shown: Winners) -> None:
    percent = [[cell.percent if cell else float("nan") for cell in row] for row in shown.cells]
    edges = [[place - 0.5 for place in range(len(side) + 1)] for side in (shown.sizes, shown.kernels)]
    is_dense = len(shown.sizes) > MAX_LABELS  # white edges and frames would leave nothing of such narrow cells
    look: dict[str, Any] = {"rasterized": True} if is_dense else {"edgecolors": "white", "linewidth": 0.6}
    axes.pcolormesh(*edges, percent, cmap="Blues", vmin=0, vmax=FULL_COLOUR, **look)
    step = ceil(len(shown.sizes) / MAX_LABELS)
    axes.set_xticks(range(0, len(shown.sizes), step), labels=shown.sizes[::step])
    if _is_slanted(shown):
        axes.tick_params(axis="x", rotation=90)
    axes.set_xlabel("N (m = n = k)" if all(size.isdigit() for size in shown.sizes) else "m×n×k")
    placed = ((x, y, cell) for y, row in enumerate(shown.cells) for x, cell in enumerate(row) if cell is not None)
    for x, y, cell in placed:
        if len(shown.sizes) <= MAX_WITH_FIGURES:
            colour = "white" if cell.percent > DARK else INK
            axes.text(x, y, cell.words, ha="center", va="center", fontsize=8, color=colour)
    best = [(x, y) for y, row in enumerate(shown.cells) for x, cell in enumerate(row) if cell and cell.is_best]
    axes.add_collection(_underlined(best) if is_dense else _framed(best), autolim=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _is_slanted(shown: Winners) -> bool:
    """Whether the labels of sizes are too wide to stand side by side."""
    return len(shown.sizes) > 1 and sum(map(len, shown.sizes)) > ROOM_FOR_LETTERS


def _framed(cells: Sequence[tuple[int, int]]) -> Any:
    """Frames around the cells, as one artist: each by itself costs as much as a plot's line."""
    from matplotlib.collections import PolyCollection

    corners = [
        [(x - 0.47, y - 0.47), (x + 0.47, y - 0.47), (x + 0.47, y + 0.47), (x - 0.47, y + 0.47)] for x, y in cells
    ]
    return PolyCollection(corners, facecolors="none", edgecolors="#d55e00", linewidths=1.8, zorder=3)


def _underlined(cells: Sequence[tuple[int, int]]) -> Any:
    """Bars at the feet of the cells, as one path: a picture of hundreds of sizes has a bar for each."""
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    bars = [Path([(x - 0.5, y + 0.3), (x + 0.5, y + 0.3), (x + 0.5, y + 0.5), (x - 0.5, y + 0.5)]) for x, y in cells]
    return PathCollection([Path.make_compound_path(*bars)] if bars else [], facecolors="#d55e00", zorder=3)
