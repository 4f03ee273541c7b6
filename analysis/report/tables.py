"""A report's tables of figures: time, speed, speed-up, share of the baseline, tile configs, correctness, failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from analysis.breakdown import breakdown
from analysis.configs import best_configs
from analysis.curves import curves, is_library, speed, usable
from analysis.measurement import Measurement
from analysis.report.document import (
    UNKNOWN,
    Block,
    Heading,
    Table,
    Text,
    config,
    figure,
    grid,
    percent,
    plot,
    shape,
    small,
    times,
)
from analysis.result_models import CaseResult, Ratio
from kernels.catalog import KERNEL_NAMES

Pair = tuple[CaseResult, Measurement]
MAX_ROWS = 60  # of a table of single cases; the CSV has them all


def ladder_place(label: str) -> tuple[int, str]:
    """Where a kernel stands in the catalogue; after it what is not there."""
    return (KERNEL_NAMES.index(label) if label in KERNEL_NAMES else len(KERNEL_NAMES)), label


def best(pairs: Sequence[Pair]) -> list[Pair]:
    """Each kernel at its fastest config for each shape and element type."""
    by_measurement = {id(measurement): (result, measurement) for result, measurement in pairs}
    fastest = curves([measurement for _, measurement in pairs])
    return [by_measurement[id(point)] for curve in fastest for point in curve.points]


def headline(pairs: Sequence[Pair]) -> Text | None:
    """The fastest that was right, of each element type; of the project's own kernels where some were measured."""
    sentences = []
    for dtype in dict.fromkeys(measurement.dtype for _, measurement in pairs if usable(measurement)):
        mine = [pair for pair in pairs if pair[1].dtype == dtype]
        own = [
            (result, measurement)
            for result, measurement in mine
            if usable(measurement) and not is_library(measurement.kernel)
        ]
        result, measurement = max(own or mine, key=lambda pair: speed(pair[1]))
        ratio = result.fraction_of_baseline
        share = f", {percent(ratio.value)} of the baseline" if ratio and result.case != result.baseline else ""
        sentences.append(
            f"{dtype}: {measurement.label} at {shape(measurement)} with {figure(measurement.gflops)} GFLOPS{share}"
        )
    return Text("Fastest: " + "; ".join(sentences) + ".") if sentences else None


def speeds(pairs: Sequence[Pair]) -> Iterator[Block]:
    """Tables of kernels by sizes for each element type."""
    chosen = best(pairs)
    if not chosen:
        return
    yield Heading(2, "Results")
    yield Text("Each kernel at its fastest tile config for the shape. N stands for m = n = k.")
    for dtype in dict.fromkeys(measurement.dtype for _, measurement in chosen):
        mine = [pair for pair in chosen if pair[1].dtype == dtype]
        yield Heading(3, dtype)
        yield _table(mine, "Speed, GFLOPS", lambda result, measurement: figure(measurement.gflops))
        yield _table(mine, "Kernel time, median, ms", lambda result, measurement: figure(measurement.kernel_ms))
        yield from _against_others(mine)
    yield from map(plot, ("gflops", "time", "speedup", "fraction-of-baseline"))


def _against_others(mine: Sequence[Pair]) -> Iterator[Block]:
    if (
        any(result.speedup_vs_naive is not None for result, _ in mine)
        and len({measurement.label for _, measurement in mine}) > 1
    ):
        yield _table(
            mine, "Speed-up over naive, kernel alone", lambda result, measurement: times(result.speedup_vs_naive)
        )
        if any((with_copies := _with_copies(mine)).values()):
            caption = "Speed-up over naive, with copies in and out"
            yield _table(mine, caption, lambda result, measurement: times(with_copies[result.case]))
    if held := [
        (result, measurement)
        for result, measurement in mine
        if result.fraction_of_baseline and result.case != result.baseline
    ]:
        caption = "Speed over the baseline's of the same round, with the interval that the samples leave open"
        yield _table(held, caption, lambda result, measurement: _ratio(result.fraction_of_baseline))


def _with_copies(mine: Sequence[Pair]) -> dict[str, float | None]:
    """Time of the naive kernel with its copies over the case's, by case."""
    totals = {result.case: split.total_ms for result, measurement in mine if (split := breakdown(measurement))}
    naive = {
        (measurement.m, measurement.n, measurement.k): totals.get(result.case)
        for result, measurement in mine
        if measurement.kernel == "naive"
    }
    return {
        result.case: over / total
        if (total := totals.get(result.case)) and (over := naive.get((measurement.m, measurement.n, measurement.k)))
        else None
        for result, measurement in mine
    }


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return UNKNOWN
    return f"{percent(ratio.value)} ({100 * ratio.lo:.1f} to {100 * ratio.hi:.1f})"


def _table(mine: Sequence[Pair], caption: str, cell: Callable[[CaseResult, Measurement], str]) -> Table:
    kernels = sorted({measurement.label for _, measurement in mine}, key=ladder_place)
    shapes = list(dict.fromkeys(shape(measurement) for _, measurement in sorted(mine, key=lambda pair: pair[1].size)))
    cells = {(measurement.label, shape(measurement)): cell(result, measurement) for result, measurement in mine}
    return grid(caption, "N", shapes, kernels, {(size, label): text for (label, size), text in cells.items()})


def tile_configs(pairs: Sequence[Pair]) -> Iterator[Block]:
    """The best config of each kernel for each shape where several were measured, and why."""
    choices = [choice for choice in best_configs(measurement for _, measurement in pairs) if choice.second is not None]
    if not choices:
        return
    yield Heading(2, "Tile configs")
    rows = tuple(
        (
            f"{choice.measurement.label}, {choice.measurement.dtype}, {shape(choice.measurement)}",
            config(choice.measurement.config.items()),
            figure(choice.measurement.gflops),
            config(choice.second.config.items()) if choice.second else UNKNOWN,
            times(choice.ratio),
            " ".join(choice.reasons) or "Nothing that is known of them tells the two apart.",
        )
        for choice in choices
    )
    head = ("kernel and shape", "fastest config", "GFLOPS", "second", "over it", "what the fastest has over the second")
    yield Table("The fastest config of each kernel for each shape", head, rows[:MAX_ROWS], words=True)
    if len(rows) > MAX_ROWS:
        yield Text(f"{len(rows) - MAX_ROWS} more are in the CSV file.")
    yield plot("block-sizes")
    yield plot("heatmap")


def correctness(pairs: Sequence[Pair]) -> Iterator[Block]:
    """The worst of each kernel and element type."""
    groups: dict[tuple[str, str], list[CaseResult]] = {}
    for result, _ in pairs:
        if result.before or result.after or result.error_vs_float64 is not None:
            groups.setdefault((result.kernel, result.dtype), []).append(result)
    if not groups:
        return
    yield Heading(2, "Correctness")
    rows = tuple((f"{kernel}, {dtype}", *_checked(group)) for (kernel, dtype), group in groups.items())
    errors = "largest error against float64", "of the worst row"
    head = ("kernel", "checked", "right", "largest residual", "its threshold", *errors)
    yield Table("Products checked, and the largest disagreement of each kernel; relative", head, rows)
    yield plot("error")


def _checked(group: Sequence[CaseResult]) -> tuple[str, ...]:
    checks = [check for result in group for check in (result.before, result.after) if check is not None]
    worst = max((check for check in checks if check.residual is not None), key=lambda c: c.residual or 0, default=None)
    errors = [result.error_vs_float64 for result in group if result.error_vs_float64 is not None]
    of_rows = [result.worst_row_error for result in group if result.worst_row_error is not None]
    return (
        str(len(checks)),
        str(sum(check.passed for check in checks)),
        small(worst.residual if worst else None),
        small(worst.threshold if worst else None),
        small(max(errors, default=None)),
        small(max(of_rows, default=None)),
    )


def failures(pairs: Sequence[Pair]) -> Iterator[Block]:
    without = [(result, measurement) for result, measurement in pairs if result.status != "ok"]
    if not without:
        return
    yield Heading(2, "Cases without figures")
    rows = tuple(
        (
            f"{measurement.label}, {measurement.dtype}, {shape(measurement)}",
            config(measurement.config.items()),
            result.status,
            result.reason or UNKNOWN,
        )
        for result, measurement in without[:MAX_ROWS]
    )
    yield Table(f"{len(without)} of {len(pairs)} cases", ("case", "config", "status", "reason"), rows, words=True)
