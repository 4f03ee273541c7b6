"""The plots of a report: those of every benchmark, and which kernel wins."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.measurement import Measurement
from analysis.plots import beside, winners
from analysis.plots.by_name import available_of, draw_of
from analysis.plots.style import Form, rendered

WHO_WINS, BESIDE = "who-wins", "beside-library"


def drawable(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    """Names of the plots that have something to show."""
    own = {WHO_WINS: winners.winners, BESIDE: beside.beside}
    return (*(name for name, describe in own.items() if describe(measurements)), *available_of(measurements))


def draw(measurements: Sequence[Measurement], name: str, form: Form) -> bytes:
    """One plot. The same input gives the same bytes. Raises NotFound, ExtraMissing."""
    if name == WHO_WINS:
        return rendered(lambda: winners.figure(winners.winners(measurements)), form)
    if name == BESIDE:
        return rendered(lambda: beside.figure(beside.beside(measurements)), form)
    return draw_of(measurements, name, form=form)
