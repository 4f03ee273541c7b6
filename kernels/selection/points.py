"""The measurements at shapes near a product that count for it, by kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kernels.model.entry.config import TileConfig
from kernels.model.kernel import DeviceTraits, Kernel
from kernels.model.numerics import Problem
from kernels.selection.cost_model.configs import Suiting, items, suiting
from kernels.selection.nearby import Nearby
from kernels.selection.tuned import ConfigItems, Entry, RankedRow, Shape, TableRow, Trial, Tried, Way, way_of

POINTS = 16  # shapes of a kernel, the nearest
# Of what is forecast as one: a kernel in whichever config was best, or a config of one that was tried in each.
Key = tuple[str, ConfigItems]


@dataclass(frozen=True, slots=True)
class SpeedPoint:
    """A kernel at a measured shape."""

    kernel: Kernel
    config: TileConfig  # as it suits the product at hand
    at: TableRow

    @property
    def row(self) -> RankedRow:
        return self.at.row

    @property
    def entry(self) -> Entry:
        return self.at.entry


@dataclass(frozen=True, slots=True)
class Points:
    """The measurements of a kernel, the nearest first, and the numbers of their shapes."""

    nearest: SpeedPoint
    rows: list[TableRow] = field(default_factory=list)
    shapes: list[int] = field(default_factory=list)

    @property
    def kernel(self) -> Kernel:
        return self.nearest.kernel


def shapes_of(near: Nearby) -> list[list[Entry]]:
    """The entries of each shape nearby, in several classes."""
    by_shape: dict[Shape, list[Entry]] = {}
    for entry in near.entries:
        by_shape.setdefault(entry.shape, []).append(entry)
    return list(by_shape.values())


def points_at(
    shapes: Iterable[Sequence[Entry]], fit: Mapping[str, Kernel], problem: Problem, device: DeviceTraits
) -> list[Points]:
    """The measurements of each kernel that fits, or of each config of one that was tried in several.

    At another shape, a config that was tried counts only if the kernel has the same passes there as for this product:
    small products are computed without the other type.
    """
    collected = _Collected(fit, problem, suiting(problem.dtype, device))
    for number, together in enumerate(shapes):
        for entry in together:
            collected.add(entry.ranked if entry.is_of(problem) else entry.elsewhere, number)
    return list(collected.points.values())


@dataclass(slots=True)
class _Suits:
    """What becomes of a config that was tried, for the product at hand. `points`: its own, once there is one."""

    kernel: Kernel
    config: TileConfig
    way: Way
    points: Points | None = None


class _Collected:
    def __init__(self, fit: Mapping[str, Kernel], problem: Problem, configs: Suiting) -> None:
        self._fit, self._problem, self._configs = fit, problem, configs
        self._suits: dict[Tried, _Suits | None] = {}
        self.points: dict[Key, Points] = {}

    def add(self, rows: Iterable[TableRow], shape: int) -> None:
        """Called for each of hundreds of rows; most of the work is done once for a config."""
        known = self._suits
        for at in rows:
            if at.tried not in known:
                known[at.tried] = self._suiting(at)
            suits = known[at.tried]
            if suits is None or at.way != suits.way:
                continue
            points = suits.points or self._points(suits, at)
            if len(points.rows) < POINTS:
                points.rows.append(at)
                points.shapes.append(shape)

    def _suiting(self, at: TableRow) -> _Suits | None:
        kernel = self._fit.get(at.tried.kernel)
        config = None if kernel is None else self._configs.config(kernel, at.tried, self._problem)
        if kernel is None or config is None:
            return None
        way = way_of(kernel.name, at.row.config, self._problem) if isinstance(at.row, Trial) else ()
        return _Suits(kernel, config, way)

    def _points(self, suits: _Suits, at: TableRow) -> Points:
        key = suits.kernel.name, items(suits.config) if isinstance(at.row, Trial) else ()
        if key not in self.points:
            self.points[key] = Points(SpeedPoint(suits.kernel, suits.config, at))
        suits.points = self.points[key]
        return suits.points
