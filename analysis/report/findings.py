"""What a report reads out of the figures: the roofline with its arithmetic, copies against kernel, dips, noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from analysis.breakdown import break_even, breakdowns
from analysis.curves import Curve, curves
from analysis.dips import Feature, features
from analysis.explain import why
from analysis.measurement import Measurement
from analysis.plots.device import split_times
from analysis.report.document import UNKNOWN, Block, Heading, Items, Table, Text, figure, percent, plot, shape, small
from analysis.report.tables import Pair, best
from analysis.result_models import Results
from analysis.roofline import Roofs, bound, measured_roofs, point, theoretical_roofs, units_of
from jobs.states import JobState
from kernels.model.numerics import DTypeName

NOISIEST = 5


def ceilings(results: Results) -> Iterator[Block]:
    if not results.ceilings:
        return
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


def roofline(pairs: Sequence[Pair]) -> Iterator[Block]:
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
    yield Table(
        "The largest size of each kernel. I: operations a byte, if each matrix moves once, and by what its tiles read",
        ("kernel", "GFLOPS", "I, moved once", "roof, GFLOPS", "share of it", "limit", "I, tiles"),
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
    least, tiles = point(measurement, roofs, "compulsory"), point(measurement, roofs, "tile")
    return (
        f"{measurement.label}, {measurement.dtype}, {shape(measurement)}",
        figure(measurement.gflops),
        figure(least.intensity if least else None),
        figure(least.attainable if least else None),
        percent(least.fraction if least else None),
        bound(measurement, roofs) or UNKNOWN,
        figure(tiles.intensity if tiles else None),
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
    yield Items(
        tuple(
            f"{_named(curve)}: {even.sentence}"
            for curve in curves(measurements)
            if (even := break_even(curve)) is not None
        )
    )
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


def dips(pairs: Sequence[Pair]) -> Iterator[Block]:
    square = [
        measurement for _, measurement in pairs if measurement.is_square
    ]  # others differ in form, not only in size
    sentences = [sentence for curve in curves(square) for sentence in _dips_of(curve)]
    if sentences:
        yield Heading(2, "Dips, peaks and falls")
        yield Text("Sizes that lie 5 % or more off the course of their curve, and what is known to differ there.")
        yield Items(tuple(sentences))


def _dips_of(curve: Curve) -> Iterator[str]:
    for feature in features(curve):
        yield f"{_named(curve)}: {_seen(feature)} {why(feature)}"


def _seen(feature: Feature) -> str:
    way = "faster" if feature.ratio > 1 else "slower"
    kind = f"{feature.kind} at {shape(feature.point)}, {off(feature)} {way}"
    held = "than at" if feature.kind == "fall" else "than its neighbours; held against"
    return f"{kind} {held} {shape(feature.reference)}."


def off(feature: Feature) -> str:
    """As 'at least 49 % (median 72 %)': by the end of its interval that is nearer to the others, and by its median."""
    at_least, median = (f"{100 * abs(ratio - 1):.0f} %" for ratio in (feature.ratio, feature.median_ratio))
    return at_least if at_least == median else f"at least {at_least} (median {median})"


def noise(results: Results, pairs: Sequence[Pair]) -> Iterator[Block]:
    yield Heading(2, "Noise, and what to bear in mind")
    remarks = [*results.warnings, *_remarks(results)]
    yield Items(tuple(remarks) or ("No case was contended, throttled, limited by power or dropped.",))
    noisy = sorted((pair for pair in best(pairs) if pair[0].rel_iqr), key=lambda pair: -(pair[0].rel_iqr or 0))
    rows = tuple(
        (
            f"{measurement.label}, {measurement.dtype}, {shape(measurement)}",
            percent(result.rel_iqr),
            str(result.samples),
            str(result.discarded),
            (result.stop_reason or UNKNOWN).replace("_", " "),
            ", ".join(figure(each.kernel_ms) for each in result.rounds),
            ", ".join(figure(each.sm_clock_mhz) for each in result.rounds),
        )
        for result, measurement in noisy[:NOISIEST]
    )
    if rows:
        head = ("kernel", "spread", "samples", "dropped", "stopped", "ms by round", "MHz by round")
        yield Table("The noisiest cases; spread: quartile to quartile, over the median", head, rows)


def _remarks(results: Results) -> Iterator[str]:
    """Of flags that the job's own warnings leave out; a job that has not succeeded has no warnings yet."""
    cases = len(results.records)
    for flagged, what in (
        ([case for case in results.records if case.contended], "taken while another process used the device"),
        ([case for case in results.records if case.throttled], "taken while heat or a power brake held the clock down"),
    ):
        if flagged and results.job.state is not JobState.SUCCEEDED:
            yield f"{len(flagged)} of {cases} cases: {what}."
    limited = sum(case.power_limited for case in results.records)
    if limited:
        yield f"The power cap held the clock down in {limited} of {cases} cases, as it does with large products."
    dropped = sum(case.discarded for case in results.records)
    if dropped:
        yield f"{dropped} samples were thrown away because the clock was far down."
    vague = [case for case in results.records if case.status == "ok" and case.stop_reason in ("timeout", "max_samples")]
    if vague:
        worst = max(case.rel_iqr or 0.0 for case in vague)
        yield f"{len(vague)} of {cases} cases ended before they were precise; the widest spread is {percent(worst)}."
    errors = [case.error_vs_float64 for case in results.records if case.status == "incorrect" and case.error_vs_float64]
    if errors:
        yield f"Wrong products were off by up to {small(max(errors))}."
