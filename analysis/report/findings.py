"""What a report concludes from the figures: the roofline with its arithmetic, copies against kernel, dips, noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from analysis.breakdown import break_even, breakdowns
from analysis.curves import Curve, curves
from analysis.library import sizes_below_its_best
from analysis.measurement import Measurement
from analysis.plots.device import split_times
from analysis.report.document import (
    UNKNOWN,
    Block,
    Heading,
    Items,
    Table,
    Text,
    counted,
    figure,
    percent,
    plot,
    shape,
    small,
)
from analysis.report.subject import Pair, Subject
from analysis.report.tables import best
from analysis.result_models import Results
from analysis.roofline import Roofs, bound, measured_roofs, point, theoretical_roofs, units_of
from kernels.model.numerics import DTypeName

NOISIEST = 5
MAX_SIZES = 8  # that a sentence names


def roofs(subject: Subject) -> Iterator[Block]:
    """The measured roofs, and where kernels lie below theirs."""
    if subject.results is not None and subject.results.ceilings:
        yield from _ceilings(subject.results)
    yield from _roofline(subject.pairs)


def _ceilings(results: Results) -> Iterator[Block]:
    yield Heading(2, "Roofs as measured")
    rows = tuple(
        (
            ceiling.name,
            figure(ceiling.value),
            ceiling.unit,
            figure(ceiling.theoretical),
            percent(ceiling.value / ceiling.theoretical if ceiling.value and ceiling.theoretical else None),
            figure(ceiling.sm_clock_mhz),
            ceiling.reason or ceiling.note or UNKNOWN,
        )
        for ceiling in results.ceilings
    )
    head = ("roof", "measured", "unit", "theoretical", "share", "SM clock, MHz", "how, or why not")
    yield Table("Roofs of the device", head, rows, words=True)


def _roofline(pairs: Sequence[Pair]) -> Iterator[Block]:
    measurements = [measurement for _, measurement in pairs]
    largest = [curve.points[-1] for curve in curves(measurements)]
    arithmetic = list(_arithmetic(largest))
    if not arithmetic:
        return
    yield Heading(2, "Roofline")
    yield Text(
        "A kernel that does I operations for each byte it moves is at most as fast as I times the memory's bandwidth, "
        "and never faster than the peak; at the ridge, peak over bandwidth, the two meet."
    )
    yield Items(tuple(arithmetic))
    yield Text(
        "Below half of its roof a kernel is held back by neither roof, but by latency, its access pattern or its "
        "instructions. Compute is its limit only if that holds for the bytes that its tiles read, too."
    )
    yield Table(
        "The largest size of each kernel. I: operations a byte, if each matrix moves once, and by what its tiles read",
        ("kernel", "GFLOPS", "I, moved once", "I, tiles", "roof, GFLOPS", "share of it", "limit"),
        tuple(_roofline_row(measurement) for measurement in largest),
    )
    yield plot("roofline")


def _arithmetic(measurements: Sequence[Measurement]) -> Iterator[str]:
    """A sentence for each roof, with its figures."""
    for units in dict.fromkeys(map(units_of, measurements)):
        device = next(measurement.device for measurement in measurements if units_of(measurement) == units)
        for roofs in (theoretical_roofs(device, units), measured_roofs(device, units)):
            if units is not None and roofs.ridge is not None:
                yield _ridge(roofs, units)


def _ridge(roofs: Roofs, units: DTypeName) -> str:
    words = roofs.ops_per_word()
    return (
        f"{units}, {roofs.kind}: {figure(roofs.gflops)} GFLOPS / {figure(roofs.memory_gb_s)} GB/s = "
        f"{figure(roofs.ridge)} FLOP a byte, that is {figure(words)} operations for each word of 4 bytes."
    )


def _roofline_row(measurement: Measurement) -> tuple[str, ...]:
    measured = measured_roofs(measurement.device, units_of(measurement))
    roofs = measured if measured.ridge else theoretical_roofs(measurement.device, units_of(measurement))
    compulsory, tiles = point(measurement, roofs, "compulsory"), point(measurement, roofs, "tile")
    return (
        f"{measurement.label}, {measurement.dtype}, {shape(measurement)}",
        figure(measurement.gflops),
        figure(compulsory.intensity if compulsory else None),
        figure(tiles.intensity if tiles else None),
        figure(compulsory.attainable if compulsory else None),
        percent(compulsory.fraction if compulsory else None),
        bound(measurement, roofs) or UNKNOWN,
    )


def copies(pairs: Sequence[Pair]) -> Iterator[Block]:
    measurements = [measurement for _, measurement in pairs]
    if not breakdowns(measurements):
        return
    yield Heading(2, "Copies against kernel")
    yield _copy_table("Copy in, kernel and copy out, one after the other", measurements)
    ordinary = [
        replace(measurement, h2d_ms=copied.h2d_ms, d2h_ms=copied.d2h_ms)
        for result, measurement in pairs
        if (copied := result.copies_pageable)
    ]
    if breakdowns(ordinary):
        yield _copy_table(
            "The same, from and to ordinary memory, which the driver copies by way of page-locked", ordinary
        )
    even = ((curve, break_even(curve)) for curve in curves(measurements) if len(curve.points) > 1)
    yield Items(tuple(f"{_named(curve)}: {found.sentence}" for curve, found in even if found is not None))
    yield plot("breakdown")


def _copy_table(caption: str, measurements: Sequence[Measurement]) -> Table:
    rows = tuple(
        (
            f"{split.measurement.label}, {split.measurement.dtype}, {shape(split.measurement)}",
            *(figure(ms) for ms in (split.h2d_ms, split.kernel_ms, split.d2h_ms, split.total_ms)),
            percent(split.shares[1]),
            figure(split.measurement.gflops),
            figure(split.gflops_with_copies),
            figure(split.h2d_gb_s),
            figure(split.d2h_gb_s),
        )
        for split in split_times(measurements)
    )
    head = ("kernel", "in, ms", "kernel, ms", "out, ms", "whole, ms", "kernel's share")
    speeds = ("GFLOPS, kernel", "GFLOPS, whole", "in, GB/s", "out, GB/s")
    return Table(caption, (*head, *speeds), rows)


def _named(curve: Curve) -> str:
    return f"{curve.label}, {curve.dtype}"


def limitations(subject: Subject) -> Iterator[Block]:
    yield Heading(2, "Limitations")
    remarks = [*subject.notes, *_disturbed(subject), *_remarks(subject), *_of_the_library(subject), *_scope(subject)]
    yield Items(tuple(remarks))
    pairs = subject.pairs
    noisy = sorted((pair for pair in best(pairs) if pair[0].rel_iqr), key=lambda pair: -(pair[0].rel_iqr or 0))
    rows = tuple(
        (
            f"{measurement.label}, {measurement.dtype}, {shape(measurement)}",
            percent(result.rel_iqr),
            str(result.samples),
            (result.stop_reason or UNKNOWN).replace("_", " "),
            ", ".join(figure(each.kernel_ms) for each in result.rounds),
            ", ".join(figure(each.sm_clock_mhz) for each in result.rounds),
        )
        for result, measurement in noisy[:NOISIEST]
    )
    if rows:
        head = ("kernel", "spread", "samples", "stopped", "ms by round", "MHz by round")
        yield Table("The noisiest cases; spread: quartile to quartile, over the median", head, rows)


def _disturbed(subject: Subject) -> Iterator[str]:
    """How many cases were disturbed, and by what."""
    kinds = Counter(measurement.condition.kind for _, measurement in subject.disturbed)
    for kind, count in kinds.items():
        yield f"{counted(count, 'case')} of {len(subject.pairs)} {kind}: no conclusion rests on them."
    if not kinds and subject.results is not None and subject.pairs:
        yield "No case was contended, throttled or ended before its median was known."


def _remarks(subject: Subject) -> Iterator[str]:
    cases = [result for result, _ in subject.pairs]
    limited = sum(case.power_limited for case in cases)
    if limited:
        yield f"The power cap held the clock down in {limited} of {len(cases)} cases, as it does with large products."
    dropped = sum(case.discarded for case in cases)
    if dropped:
        yield f"{dropped} samples were thrown away because the clock was far down."
    errors = [case.error_vs_float64 for case in cases if case.status == "incorrect" and case.error_vs_float64]
    if errors:
        yield f"Wrong products were off by up to {small(max(errors))}."


def _of_the_library(subject: Subject) -> Iterator[str]:
    """A note that the library may be faster than measured."""
    sizes = sizes_below_its_best(subject.measurements)
    if sizes:
        more = f" and {len(sizes) - MAX_SIZES} more sizes" if len(sizes) > MAX_SIZES else ""
        yield (
            f"At {', '.join(sizes[:MAX_SIZES])}{more} the library took the operands as they lie. Tuned, or on operands "
            "padded with zeros to multiples of 64, it may be faster; this run did not measure that."
        )


def _scope(subject: Subject) -> Iterator[str]:
    """What the figures do not show."""
    if subject.results is None:
        yield "These are published figures: samples, checks and surroundings that the source leaves out are not known."
        return
    yield "The figures are of one device of this model; another card of it may hold other clocks."
    if subject.results.spec.data.distribution == "normal":
        yield "Operands are random numbers; sparse, constant or structured matrices may take less power and be faster."
    if not subject.results.spec.transfers.enabled and not subject.on_cpu:
        yield "Copies to and from the device were not measured: a speed-up of the kernel is not one of a whole program."
