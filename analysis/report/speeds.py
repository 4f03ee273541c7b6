"""Speeds in a report: which kernel wins, tables of kernels by size, times and speed-ups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from analysis.breakdown import breakdown
from analysis.curves import beside_disturbed as beside_disturbed_kernel
from analysis.library import LibraryLine, lines_at_their_best
from analysis.measurement import Measurement
from analysis.plots import beside, winners
from analysis.report.document import (
    UNKNOWN,
    Block,
    Figure,
    Heading,
    Table,
    Text,
    figure,
    grid,
    plot,
    shape,
    times,
)
from analysis.report.figures import BESIDE, WHO_WINS
from analysis.report.subject import Pair, beside_disturbed
from analysis.report.tables import best, ladder_place
from analysis.result_models import CaseResult, Ratio

MARK, MAX_NAMED = " †", 4  # the mark of disturbed cells; how many of them a note names
NOTE = f"{MARK.strip()} It, or what it is compared with, was disturbed: no conclusion rests on it."


def speeds(pairs: Sequence[Pair]) -> Iterator[Block]:
    """Which kernel wins, and tables of kernels by size for each element type."""
    chosen = best(pairs)
    if not chosen:
        return
    several, doubtful = _several(chosen), beside_disturbed(pairs)
    yield Heading(2, "Results")
    yield Text("Each kernel stands with its fastest tile config for the size; N stands for m = n = k.")
    if beside_best := _library_at_its_best([measurement for _, measurement in pairs]):
        yield Text(beside_best)
    yield Figure(WHO_WINS, winners.CAPTION)
    if beside.beside([measurement for _, measurement in chosen]):
        yield Figure(BESIDE, beside.CAPTION)
    elif several:
        yield plot("gflops")
    for dtype, mine in _by_dtype(chosen):
        if several:
            shown = _table(mine, f"Speed on {dtype}, GFLOPS", lambda _, measurement: figure(measurement.gflops))
            yield replace(shown, note=_note(mine))
            yield from _against_baseline(mine, dtype, doubtful)
        else:
            yield _of_one_size(mine, dtype, doubtful)


def _library_at_its_best(found: Sequence[Measurement]) -> str | None:
    """Which library result shares are relative to, if it is not the library's own choice on unpadded operands."""
    named = [f"at {size} {_way(line)}" for size, line in lines_at_their_best(found).items()]
    if not named:
        return None
    more = f", and at {len(named) - MAX_NAMED} more sizes likewise" if len(named) > MAX_NAMED else ""
    return (
        f"Shares are of the library at its best in this run: {'; '.join(named[:MAX_NAMED])}{more}. There they are "
        "ratios of medians; the time that padding takes is not counted."
    )


def _way(line: LibraryLine) -> str:
    return f"{line.same.label} on operands padded with zeros to {line.padded_to}" if line.is_padded else line.name


def _by_dtype(chosen: Sequence[Pair]) -> Iterator[tuple[str, list[Pair]]]:
    for dtype in dict.fromkeys(measurement.dtype for _, measurement in chosen):
        yield dtype, [pair for pair in chosen if pair[1].dtype == dtype]


def _several(chosen: Sequence[Pair]) -> bool:
    return len({shape(measurement) for _, measurement in chosen}) > 1


def _of_one_size(mine: Sequence[Pair], dtype: str, doubtful: Collection[str]) -> Table:
    """All figures of each kernel in one row."""
    with_copies, over_disturbed = _with_copies(mine), _over_disturbed(mine)
    rows = tuple(
        (
            f"{measurement.label}{'' if measurement.condition.is_clean else MARK}",
            figure(measurement.gflops),
            figure(measurement.kernel_ms),
            "baseline"
            if result.case == result.baseline
            else _marked(_ratio(result.fraction_of_baseline), result.case in doubtful),
            _marked(times(result.speedup_vs_naive), result.case in over_disturbed),
            _marked(times(with_copies[result.case]), result.case in over_disturbed),
        )
        for result, measurement in sorted(mine, key=lambda pair: ladder_place(pair[1].label))
    )
    head = ("kernel", "GFLOPS", "time, ms", "% of the baseline", "over naive", "over naive, with copies")
    return Table(f"Each kernel on {dtype} at {shape(mine[0][1])}", head, rows, note=_note(mine))


def more_speeds(pairs: Sequence[Pair]) -> Iterator[Block]:
    """For the appendix: times, and speed-ups over the naive kernel."""
    chosen = best(pairs)
    if not _several(chosen):
        return
    for dtype, mine in _by_dtype(chosen):
        yield _table(mine, f"Kernel time on {dtype}, median, ms", lambda _, measurement: figure(measurement.kernel_ms))
        yield from _over_naive(mine, dtype)


def _over_naive(mine: Sequence[Pair], dtype: str) -> Iterator[Block]:
    known = any(result.speedup_vs_naive is not None for result, _ in mine)
    if not known or len({measurement.label for _, measurement in mine}) == 1:
        return
    doubtful = _over_disturbed(mine)
    caption = f"Speed-up over naive on {dtype}, kernel alone"
    yield _table(mine, caption, lambda result, _: times(result.speedup_vs_naive), doubtful)
    if any((with_copies := _with_copies(mine)).values()):
        caption = f"Speed-up over naive on {dtype}, with copies in and out"
        yield _table(mine, caption, lambda result, _: times(with_copies[result.case]), doubtful)


def _over_disturbed(mine: Sequence[Pair]) -> frozenset[str]:
    """Cases whose speed-up is one over a disturbed naive kernel. `mine`: of one element type."""
    found = beside_disturbed_kernel([one for _, one in mine], "naive")
    return frozenset(result.case for result, one in mine if id(one) in found)


def _against_baseline(mine: Sequence[Pair], dtype: str, doubtful: Collection[str]) -> Iterator[Block]:
    held = [pair for pair in mine if pair[0].fraction_of_baseline and pair[0].case != pair[0].baseline]
    if held:
        caption = f"Share of the baseline's speed on {dtype}, in %, with the interval that the samples leave open"
        yield _table(held, caption, lambda result, _: _ratio(result.fraction_of_baseline), doubtful)


def _with_copies(mine: Sequence[Pair]) -> dict[str, float | None]:
    """By case: the naive kernel's time with copies over the case's."""
    totals = {result.case: split.total_ms for result, measurement in mine if (split := breakdown(measurement))}
    naive = {
        shape(measurement): totals.get(result.case) for result, measurement in mine if measurement.kernel == "naive"
    }
    return {
        result.case: over / total
        if (total := totals.get(result.case)) and (over := naive.get(shape(measurement)))
        else None
        for result, measurement in mine
    }


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return UNKNOWN
    if ratio.lo == ratio.hi:  # figures without their samples, as others publish them
        return f"{100 * ratio.value:.1f}"
    return f"{100 * ratio.value:.1f} ({100 * ratio.lo:.1f}–{100 * ratio.hi:.1f})"


def _marked(cell: str, is_doubtful: bool) -> str:
    return cell + MARK if is_doubtful and cell != UNKNOWN else cell


def _table(
    mine: Sequence[Pair],
    caption: str,
    cell: Callable[[CaseResult, Measurement], str],
    doubtful: Collection[str] = (),
) -> Table:
    """A disturbed cell has a mark, which the note explains. `doubtful`: cases whose cells say how they compare with a
    disturbed one."""
    kernels = sorted({measurement.label for _, measurement in mine}, key=ladder_place)
    ordered = sorted((measurement for _, measurement in mine), key=lambda one: one.problem.flops)
    shapes = list(dict.fromkeys(map(shape, ordered)))
    cells = {
        (shape(measurement), measurement.label): _marked(
            cell(result, measurement), result.case in doubtful or not measurement.condition.is_clean
        )
        for result, measurement in mine
    }
    return grid(caption, "N", shapes, kernels, cells, note=NOTE if any(MARK in cell for cell in cells.values()) else "")


def _note(mine: Sequence[Pair]) -> str:
    """The meaning of the mark, and what disturbed the cells."""
    disturbed = [
        f"{measurement.label} at {shape(measurement)}: {measurement.condition.sentence}"
        for _, measurement in mine
        if not measurement.condition.is_clean
    ]
    more = f" And {len(disturbed) - MAX_NAMED} more." if len(disturbed) > MAX_NAMED else ""
    return f"{NOTE} {' '.join(disturbed[:MAX_NAMED])}{more}" if disturbed else ""
