"""The answer of a run, for each element type and accuracy that it measured: the fastest kernel, how it compares with
the library and the device's peak, how reliable that is, and what to try next.

The library is represented by its best result of the run (`analysis/library.py`): tuned, or on operands padded with
zeros.

A disturbed measurement is the answer only if there is no clean one. A disturbed library result is not compared with:
the answer then has no ratio, and says why.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from pydantic import Field

from analysis.answers.next_step import next_step
from analysis.curves import is_library, speed, usable
from analysis.library import Library, LibraryLine
from analysis.measurement import Measurement, size_of
from analysis.roofline import RoofKind, measured_roofs, theoretical_roofs, units_of
from jobs.base import Strict
from kernels.model.numerics import AccuracyName, DTypeName
from kernels.published_records import ConditionKind

AS_THEY_LIE = (
    " {} took the operands as they lie: at a size that is no multiple of 64 it may be faster tuned, or on zero-padded "
    "operands, which this run did not measure."
)
TERA_FROM = 1000.0  # GFLOPS from which speeds are given in TFLOP/s


class Answer(Strict):
    """What a run answers for one element type and accuracy."""

    label: str = Field(description="The fastest kernel, by the name that the results give it.", examples=["pipelined"])
    kernel: str | None = Field(description="Its name in the catalogue; null where it is not there.")
    is_library: bool = Field(description="Whether it is a library's, since no other kernel has a figure.")
    config: dict[str, int] = Field(description="Its tile config.")
    dtype: DTypeName = Field(description="Element type of the operands.")
    accuracy: AccuracyName | None = Field(description="Class of the arithmetic; null where it is not known.")
    m: int = Field(description="Rows of A and C, where it was fastest.")
    n: int = Field(description="Columns of B and C.")
    k: int = Field(description="Columns of A, rows of B.")
    batch: int = Field(1, description="Products in one launch.")
    gflops: float = Field(description="Its speed there.")
    library: str | None = Field(description="The library's fastest kernel of that accuracy there; null without one.")
    library_padded_to: str | None = Field(
        None,
        description="The library is fastest on operands padded with zeros to this size: its speed is that of the "
        "product that is asked for, without the time that padding takes. Null where it takes operands as they lie.",
    )
    library_gflops: float | None = Field(description="Speed of that.")
    fraction_of_library: float | None = Field(
        description="Speed over the library's; null without one, and where something disturbed either."
    )
    peak_gflops: float | None = Field(description="Peak of the units that it uses; null where it is not known.")
    peak_kind: RoofKind | None = Field(description="Whether the peak is theoretical or was measured.")
    fraction_of_peak: float | None = Field(description="Speed over the peak.")
    error_vs_float64: float | None = Field(description="Relative error against the float64 product.")
    worst_row_error: float | None = Field(description="The same of the row that is off the most.")
    residual: float | None = Field(description="What the product's check found.")
    residual_limit: float | None = Field(description="The largest residual that rounding explains.")
    condition: ConditionKind = Field(description="`clean`, or what disturbed this measurement.")
    trust: str = Field(description="How far to trust the figures, in a sentence or two.")
    next_step: str = Field(description="What to try next, in a sentence.")
    summary: str = Field(description="All of it in a sentence.")

    @property
    def size(self) -> str:
        return size_of(self.m, self.n, self.k, self.batch)

    @property
    def library_name(self) -> str | None:
        return f"{self.library}, padded to {self.library_padded_to}" if self.library_padded_to else self.library


def answers(measurements: Sequence[Measurement]) -> tuple[Answer, ...]:
    """All answers, the one with most measurements first. Empty if no case has a figure."""
    groups: dict[Hashable, list[Measurement]] = {}
    for each in measurements:
        groups.setdefault((each.device.key, each.dtype, each.accuracy), []).append(each)
    with_figures = [group for group in groups.values() if any(map(usable, group))]
    with_figures.sort(key=lambda group: (all(is_library(each.kernel) for each in group), -len(group)))
    return tuple(map(_answer, with_figures))


def fastest(measurements: Sequence[Measurement]) -> Measurement | None:
    """The fastest clean measurement, or the fastest of all if none is clean. A library's is returned only if there is
    no other."""
    known = [each for each in measurements if usable(each)]
    own = [each for each in known if not is_library(each.kernel)]
    return max(own or known, key=lambda each: (each.condition.is_clean, speed(each)), default=None)


def in_words(gflops: float) -> str:
    """`781.9 TFLOP/s`, `179.8 GFLOP/s`."""
    value, unit = (gflops / 1e3, "TFLOP/s") if gflops >= TERA_FROM else (gflops, "GFLOP/s")
    return f"{value:.4g} {unit}"


def _answer(group: Sequence[Measurement]) -> Answer:
    best = fastest(group)
    assert best is not None
    line = Library(group).best(best)
    library = line.same if line else None
    is_fair = library is not None and best.condition.is_clean and library.condition.is_clean
    share = speed(best) / speed(library) if library and is_fair else None
    peak, kind = _peak(best)
    return Answer(
        label=best.label,
        kernel=best.kernel,
        is_library=is_library(best.kernel),
        config=dict(best.config),
        dtype=best.dtype,
        accuracy=best.accuracy,
        m=best.m,
        n=best.n,
        k=best.k,
        batch=best.batch,
        gflops=speed(best),
        library=library.label if library else None,
        library_padded_to=line.padded_to if line else None,
        library_gflops=speed(library) if library else None,
        fraction_of_library=share,
        peak_gflops=peak,
        peak_kind=kind,
        fraction_of_peak=speed(best) / peak if peak else None,
        error_vs_float64=best.error_vs_float64,
        worst_row_error=best.worst_row_error,
        residual=best.residual,
        residual_limit=best.residual_limit,
        condition=best.condition.kind,
        trust=_trust(group, best, line),
        next_step=next_step(group, best, line),
        summary=_summary(best, line, share, peak),
    )


def _peak(best: Measurement) -> tuple[float | None, RoofKind | None]:
    units = units_of(best)
    for roofs in (theoretical_roofs(best.device, units), measured_roofs(best.device, units)):
        if roofs.gflops:
            return roofs.gflops, roofs.kind
    return None, None


def _trust(group: Sequence[Measurement], best: Measurement, line: LibraryLine | None) -> str:
    """The most serious problem comes first."""
    library = line.same if line else None
    if not best.condition.is_clean:
        return f"{best.condition.sentence} No case of this type was measured undisturbed, so nothing is ranked."
    if library is not None and library is not best and not library.condition.is_clean:
        return f"Not comparable with {library.label} there. {library.condition.sentence}"
    return _clean(group) + (AS_THEY_LIE.format(line.name) if line and line.may_be_faster else "")


def _clean(group: Sequence[Measurement]) -> str:
    disturbed = sum(1 for each in group if usable(each) and not each.condition.is_clean)
    known = sum(map(usable, group))
    if disturbed:
        return f"This case is clean. Disturbed or not converged, and so not ranked: {disturbed} of {known} cases."
    return "Clean: nothing is known to have disturbed it." if known > 1 else "Clean, but there is only one case."


def _summary(best: Measurement, line: LibraryLine | None, share: float | None, peak: float | None) -> str:
    size = f"{'N = ' if best.is_square else ''}{size_of(best.m, best.n, best.k, best.batch)}"
    fastest_of = "fastest" if is_library(best.kernel) else "the fastest hand-written kernel"
    parts = [f"{best.label} is {fastest_of} in {best.dtype}, at {size}: {in_words(speed(best))}"]
    if line is not None and line.same is not best:
        beside = f"{100 * share:.1f} % of {line.name}" if share else f"{line.name} beside it"
        parts.append(f"{beside} ({in_words(speed(line.same))})")
    if peak:
        parts.append(f"{100 * speed(best) / peak:.1f} % of the peak")
    return ", ".join(parts) + "."
