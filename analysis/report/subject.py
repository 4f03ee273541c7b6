"""The subject of a report: a benchmark's results, or results that ship with the service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.comparison.shares import share_of
from analysis.curves import speed_ups, usable
from analysis.library import Library, LibraryLine
from analysis.measurement import Measurement
from analysis.plots.looks import is_library
from analysis.result_models import CaseResult, Ratio, Results
from analysis.results import measurements
from analysis.sources import measured
from kernels.published_records import Publication

Pair = tuple[CaseResult, Measurement]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Cases and their origin. `results` is None if only published figures are known; `is_quoted`: they are somebody
    else's, of which no more is known than what they state."""

    title: str
    authors: tuple[str, ...]
    date: str
    source: str
    device: dict[str, Any]  # as GET /v1/devices describes one
    pairs: tuple[Pair, ...]
    results: Results | None
    notes: tuple[str, ...] = ()
    is_quoted: bool = False

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return tuple(measurement for _, measurement in self.pairs)

    @property
    def on_cpu(self) -> bool:
        return self.device.get("device_class") == "cpu"

    @property
    def clean(self) -> tuple[Pair, ...]:
        """Cases with a figure that can support a conclusion."""
        return tuple(pair for pair in self.pairs if usable(pair[1]) and pair[1].condition.is_clean)

    @property
    def disturbed(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.pairs if usable(pair[1]) and not pair[1].condition.is_clean)

    @property
    def own(self) -> tuple[Pair, ...]:
        """Clean cases of kernels that are not a library's."""
        return tuple(pair for pair in self.clean if not is_library(pair[1].kernel))


def beside_disturbed(pairs: Sequence[Pair]) -> frozenset[str]:
    """Ids of the cases whose baseline was disturbed: no conclusion rests on their shares of its speed."""
    disturbed = {result.case for result, one in pairs if usable(one) and not one.condition.is_clean}
    return frozenset(result.case for result, _ in pairs if result.baseline in disturbed)


def of_results(results: Results) -> Subject:
    """The subject for a benchmark."""
    job = results.job
    kind = {"sweep": "Matrix products", "ceilings": "Roofs", "tune": "Tile configs"}[results.spec.kind]
    finished = f"{job.finished_at:%Y-%m-%d %H:%M} UTC" if job.finished_at else "not finished"
    return Subject(
        title=job.title or kind,
        authors=(),
        date=finished,
        source=f"benchmark {job.id}",
        device=results.device,
        pairs=tuple(_at_its_best(tuple(zip(results.records, measurements(results), strict=True)))),
        results=results,
        notes=results.warnings,
    )


def _at_its_best(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """If a library is the baseline and the run has a faster result of it, shares are relative to that result."""
    library = Library(measurement for _, measurement in pairs)
    cases = {id(measurement): result.case for result, measurement in pairs}
    libraries = {(result.case, m.accuracy) for result, m in pairs if is_library(m.kernel)}
    for result, one in pairs:
        is_held = usable(one) and (result.baseline, one.accuracy) in libraries
        line = library.best(one) if is_held else None
        if line is None or cases[id(line.measured)] == result.baseline:
            yield result, one
            continue
        held = {"baseline": cases[id(line.measured)], "fraction_of_baseline": _over(one, line)}
        yield result.model_copy(update=held), one


def _over(one: Measurement, line: LibraryLine) -> Ratio:
    """The share of that result's speed, with what the samples leave open; without an interval where they are not
    known."""
    share = share_of(one, line.same)
    lo, hi = share.interval or (share.value, share.value)
    return Ratio(value=share.value, lo=lo, hi=hi)


def of_publication(publication: Publication) -> Subject:
    """The subject for results that ship with the service. Fields that are not published are unknown."""
    citation, device = publication.citation, publication.device
    found = measured(publication)
    known = {name: getattr(device, name) for name in _DEVICE_FIELDS}
    peaks = {"memory_gb_s": device.memory_gb_s, "gflops": dict(device.peak_gflops)}
    notes = (citation.note, device.note)
    return Subject(
        title=publication.title,
        authors=citation.authors,
        date=citation.date or "not stated",
        source=citation.source or f"published results {publication.name}",
        device={**known, "max_clock_mhz": device.clock_mhz, "theoretical": peaks, "versions": dict(device.versions)},
        pairs=tuple(_published_pairs(found)),
        results=None,
        notes=tuple(note for note in notes if note),
        is_quoted=publication.report is not None,
    )


_DEVICE_FIELDS = (
    "name",
    "device_class",
    "compute_capability",
    "multiprocessors",
    "memory_bytes",
    "memory_bus_bits",
    "memory_clock_mhz",
    "l2_bytes",
)


def _published_pairs(found: Sequence[Measurement]) -> Iterator[Pair]:
    library, numbers = Library(found), {id(one): str(number) for number, one in enumerate(found)}
    for number, (one, gain) in enumerate(zip(found, speed_ups(found, "naive"), strict=True)):
        problem, line = one.problem, library.best(one)
        yield (
            CaseResult(
                case=str(number),
                round=0,
                attempt=1,
                kernel=one.label,
                config=dict(one.config),
                device_class=one.device.device_class,
                dtype=one.dtype,
                m=one.m,
                n=one.n,
                k=one.k,
                batch=one.batch,
                status=one.status,
                cache=one.cache or "cold",
                flops=problem.flops,
                bytes_min=problem.operand_bytes + problem.product_bytes,
                kernel_ms=one.kernel_ms,
                gflops=one.gflops,
                error_vs_float64=one.error_vs_float64,
                worst_row_error=one.worst_row_error,
                baseline=numbers[id(line.measured)] if line else None,
                fraction_of_baseline=_over(one, line) if line and usable(one) else None,
                speedup_vs_naive=gain,
            ),
            one,
        )
