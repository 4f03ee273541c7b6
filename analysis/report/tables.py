"""A report's tables of figures: time, speed, speed-up, share of the baseline, tile configs, correctness, failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from analysis.breakdown import breakdown
from analysis.configs import best_configs
from analysis.curves import curves, speed, usable
from analysis.measurement import Measurement
from analysis.plots import beside, winners
from analysis.plots.looks import is_library
from analysis.report.document import (
    UNKNOWN,
    Block,
    Figure,
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
from analysis.report.figures import BESIDE, WHO_WINS
from analysis.report.subject import Pair
from analysis.result_models import CaseResult, Ratio
from kernels.catalog import KERNEL_NAMES

MAX_ROWS = 60  # of a table of single cases; the CSV has them all
MARK, MAX_NAMED = " †", 4  # of cells that were disturbed; how many of them a note names


def ladder_place(label: str) -> tuple[int, str]:
    """Where a kernel stands in the catalogue; after it what is not there."""
    return (KERNEL_NAMES.index(label) if label in KERNEL_NAMES else len(KERNEL_NAMES)), label


def best(pairs: Sequence[Pair]) -> list[Pair]:
    """Each kernel at its fastest config for each shape and element type."""
    by_measurement = {id(measurement): (result, measurement) for result, measurement in pairs}
    fastest = curves([measurement for _, measurement in pairs])
    return [by_measurement[id(point)] for curve in fastest for point in curve.points]


def headline(pairs: Sequence[Pair]) -> str | None:
    """The fastest of each element type among this project's kernels, and the fastest library beside it. Disturbed cases
    are left out, and counted."""
    clean = [pair for pair in pairs if usable(pair[1]) and pair[1].condition.is_clean]
    dtypes = dict.fromkeys(measurement.dtype for _, measurement in clean)
    sentences = [_fastest(dtype, [pair for pair in clean if pair[1].dtype == dtype]) for dtype in dtypes]
    disturbed = sum(usable(measurement) and not measurement.condition.is_clean for _, measurement in pairs)
    if disturbed:
        sentences.append(f"Left out: {disturbed} of {len(pairs)} cases that were disturbed while they were measured.")
    return " ".join(sentences) or None


def _fastest(dtype: str, mine: Sequence[Pair]) -> str:
    own = [pair for pair in mine if not is_library(pair[1].kernel)]
    libraries = [pair for pair in mine if is_library(pair[1].kernel)]
    named = [_named_speed(group) for group in (own, libraries) if group]
    if not own:
        return f"Fastest on {dtype}, of libraries alone: {named[0]}."
    beside = f"; of the libraries beside them: {named[1]}" if libraries else ""
    return f"Fastest of this project's kernels on {dtype}: {named[0]}{beside}."


def _named_speed(group: Sequence[Pair]) -> str:
    result, measurement = max(group, key=lambda pair: speed(pair[1]))
    ratio = result.fraction_of_baseline
    share = f", {percent(ratio.value)} of the baseline there" if ratio and result.case != result.baseline else ""
    return f"{measurement.label} at {shape(measurement)} with {figure(measurement.gflops)} GFLOPS{share}"


def speeds(pairs: Sequence[Pair]) -> Iterator[Block]:
    """Who wins, and tables of kernels by sizes for each element type."""
    chosen = best(pairs)
    if not chosen:
        return
    several = len({shape(measurement) for _, measurement in chosen}) > 1
    yield Heading(2, "Results")
    yield Text("Each kernel stands with its fastest tile config for the size; N stands for m = n = k.")
    yield Figure(WHO_WINS, winners.CAPTION)
    if beside.beside([measurement for _, measurement in chosen]):
        yield Figure(BESIDE, beside.CAPTION)
    elif several:
        yield plot("gflops")
    for dtype in dict.fromkeys(measurement.dtype for _, measurement in chosen):
        mine = [pair for pair in chosen if pair[1].dtype == dtype]
        yield _table(mine, f"Speed on {dtype}, GFLOPS", lambda _, measurement: figure(measurement.gflops))
        yield from _against_baseline(mine, dtype)


def more_speeds(pairs: Sequence[Pair]) -> Iterator[Block]:
    """Of the appendix: times, and speed-ups over the naive kernel."""
    chosen = best(pairs)
    for dtype in dict.fromkeys(measurement.dtype for _, measurement in chosen):
        mine = [pair for pair in chosen if pair[1].dtype == dtype]
        yield _table(mine, f"Kernel time on {dtype}, median, ms", lambda _, measurement: figure(measurement.kernel_ms))
        yield from _over_naive(mine, dtype)


def _over_naive(mine: Sequence[Pair], dtype: str) -> Iterator[Block]:
    known = any(result.speedup_vs_naive is not None for result, _ in mine)
    if not known or len({measurement.label for _, measurement in mine}) == 1:
        return
    yield _table(
        mine, f"Speed-up over naive on {dtype}, kernel alone", lambda result, _: times(result.speedup_vs_naive)
    )
    if any((with_copies := _with_copies(mine)).values()):
        caption = f"Speed-up over naive on {dtype}, with copies in and out"
        yield _table(mine, caption, lambda result, _: times(with_copies[result.case]))


def _against_baseline(mine: Sequence[Pair], dtype: str) -> Iterator[Block]:
    held = [pair for pair in mine if pair[0].fraction_of_baseline and pair[0].case != pair[0].baseline]
    if held:
        caption = f"Share of the baseline's speed on {dtype}, in %, with the interval that the samples leave open"
        yield _table(held, caption, lambda result, _: _ratio(result.fraction_of_baseline))


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
    if ratio.lo == ratio.hi:  # published results have no interval
        return f"{100 * ratio.value:.1f}"
    return f"{100 * ratio.value:.1f} ({100 * ratio.lo:.1f}–{100 * ratio.hi:.1f})"


def _table(mine: Sequence[Pair], caption: str, cell: Callable[[CaseResult, Measurement], str]) -> Table:
    """A cell that was disturbed has a mark, which the note explains."""
    kernels = sorted({measurement.label for _, measurement in mine}, key=ladder_place)
    shapes = list(dict.fromkeys(shape(measurement) for _, measurement in sorted(mine, key=lambda pair: pair[1].size)))
    cells = {
        (shape(measurement), measurement.label): cell(result, measurement)
        + ("" if measurement.condition.is_clean else MARK)
        for result, measurement in mine
    }
    disturbed = [
        f"{measurement.label} at {shape(measurement)}: {measurement.condition.sentence}"
        for _, measurement in mine
        if not measurement.condition.is_clean
    ]
    more = f" And {len(disturbed) - MAX_NAMED} more." if len(disturbed) > MAX_NAMED else ""
    note = f"{MARK.strip()} Disturbed: no conclusion rests on it. {' '.join(disturbed[:MAX_NAMED])}{more}"
    return grid(caption, "N", shapes, kernels, cells, note=note if disturbed else "")


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
    """Cases without figures; those of one kernel that have one reason together."""
    without = [(result, measurement) for result, measurement in pairs if result.status != "ok"]
    if not without:
        return
    groups: dict[tuple[str, ...], list[str]] = {}
    for result, measurement in without:
        key = (measurement.label, measurement.dtype, result.status, result.reason or UNKNOWN)
        groups.setdefault(key, []).append(shape(measurement))
    rows = tuple(
        (f"{label}, {dtype}", ", ".join(dict.fromkeys(shapes)), status, reason)
        for (label, dtype, status, reason), shapes in groups.items()
    )
    head = ("kernel", "N", "status", "reason")
    yield Table(f"{len(without)} of {len(pairs)} cases have no figures", head, rows[:MAX_ROWS], words=True)
