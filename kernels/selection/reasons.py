"""Sentences that say why `auto` takes a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.model.kernel import LibraryKernel
from kernels.model.numerics import Problem
from kernels.selection.forecast import Forecast
from kernels.selection.points import SpeedPoint
from kernels.selection.tuned import TunedTable

AS_FAST = 0.98  # of the fastest: runs of one kernel differ by so much


@dataclass(frozen=True, slots=True)
class Race:
    """A choice: the chosen kernel, the fastest one, the number of candidates, and the table."""

    chosen: Forecast
    fastest: Forecast
    count: int
    table: TunedTable

    def measured_at(self, point: SpeedPoint) -> str:
        """How, on which device and at which shape it was measured."""
        verb = (
            "probed here" if self.table.is_probed else f"measured on {with_article(self.table.device_of(point.entry))}"
        )
        return f"{verb} at {_shape(point)}"


def reason_of(race: Race, problem: Problem) -> str:
    chosen, fastest = race.chosen.point, race.fastest.point
    if not chosen.entry.is_of(problem):
        return _expected(race)
    kernels = f"{race.count} kernels {race.measured_at(chosen)}"
    speed = f"{chosen.row.gflops:.0f} GFLOPS"
    if chosen.row.fraction_of_baseline is not None and chosen.entry.baseline != chosen.kernel.name:
        speed += f", {chosen.row.fraction_of_baseline:.2f} times {chosen.entry.baseline}"
    if race.count == 1:
        return f"of the kernels {race.measured_at(chosen)} {chosen.kernel.name} alone fits here ({speed})."
    if chosen is fastest:
        return f"{chosen.kernel.name} was the fastest of {kernels} ({speed})."
    return (
        f"{chosen.kernel.name} was within {100 * (1 - AS_FAST):.0f} % of {fastest.kernel.name}, the fastest of "
        f"{kernels} ({speed}); so near, libraries go first, and the more exact."
    )


def _expected(race: Race) -> str:
    """The reason at a shape that was not measured itself."""
    chosen, fastest = race.chosen.point.kernel, race.fastest.point.kernel
    ours = not isinstance(chosen, LibraryKernel)
    speed = f", at {race.chosen.speed:.2f} times the library's speed" if ours else ""
    shapes = "the shape" if race.chosen.points == 1 else f"{race.chosen.points} shapes"
    where = f"on {with_article(race.table.device_of(race.chosen.point.entry))} at {_shape(race.chosen.point)}"
    by = f"by its tiles, waves and passes, and by its times at {shapes} measured nearest, the first of them {where}"
    if race.chosen.point.kernel.emulated_with is not None:
        by += "; by its errors there on normal operands it should be no further off than the library as a whole"
    if race.count == 1:
        return f"of the kernels measured near this shape {chosen.name} alone fits here, {by}."
    if chosen is fastest:
        return f"{chosen.name} should be the fastest of {race.count} kernels here{speed}, {by}."
    return (
        f"{chosen.name} should be within {100 * (1 - AS_FAST):.0f} % of {fastest.name}, the fastest of {race.count} "
        f"kernels here, {by}; so near, libraries go first, and the more exact."
    )


def _shape(point: SpeedPoint) -> str:
    entry = point.entry
    batch = f" in batches of {entry.batch}" if entry.batch > 1 else ""
    return f"{entry.m}×{entry.n}×{entry.k}{batch}"


def with_article(device: str) -> str:
    """The name with its article, by its pronunciation."""
    return f"an {device}" if device.startswith(("A", "E", "I", "NV", "O")) else f"a {device}"
