"""A report's tables of figures: time, speed, speed-up, share of the baseline, tile configs, correctness, failures."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from analysis.configs import Best, best_configs
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
    percent,
    plot,
    shape,
    small,
    times,
)
from analysis.report.subject import Pair, beside_disturbed
from analysis.result_models import CaseResult
from kernels.catalog import KERNEL_NAMES

MAX_ROWS = 60  # of a table with a row for each case; the CSV has all of them
MAX_REASONS = 2  # why a config is the fastest


def ladder_place(label: str) -> tuple[int, str]:
    """A kernel's place in the catalogue; kernels that are not in it come last."""
    return (KERNEL_NAMES.index(label) if label in KERNEL_NAMES else len(KERNEL_NAMES)), label


def best(pairs: Sequence[Pair]) -> list[Pair]:
    """Each kernel at its fastest config for each shape and element type."""
    by_measurement = {id(measurement): (result, measurement) for result, measurement in pairs}
    fastest = curves([measurement for _, measurement in pairs])
    return [by_measurement[id(point)] for curve in fastest for point in curve.points]


def headline(pairs: Sequence[Pair]) -> str | None:
    """The fastest hand-written kernel of each element type and accuracy, and the fastest library of the same. Disturbed
    cases are left out, and so are shares of a disturbed baseline."""
    doubtful = beside_disturbed(pairs)
    clean = [_without_share(pair, doubtful) for pair in pairs if usable(pair[1]) and pair[1].condition.is_clean]
    sentences = [sentence for dtype in dict.fromkeys(m.dtype for _, m in clean) for sentence in _fastest(dtype, clean)]
    return " ".join(sentences) or None


def _without_share(pair: Pair, doubtful: Collection[str]) -> Pair:
    result, one = pair
    return (result.model_copy(update={"fraction_of_baseline": None}), one) if result.case in doubtful else pair


def _fastest(dtype: str, clean: Sequence[Pair]) -> Iterator[str]:
    """Libraries of another accuracy are not comparable: they are named only if there is nothing else."""
    mine = [pair for pair in clean if pair[1].dtype == dtype]
    own = [pair for pair in mine if not is_library(pair[1].kernel)]
    if not own:
        yield f"On {dtype} only libraries have figures that count; the fastest: {_named_speed(mine)}."
    accuracies = dict.fromkeys(measurement.accuracy for _, measurement in own)
    for accuracy in accuracies:
        to = f" to {accuracy}" if accuracy and len(accuracies) > 1 else ""
        rivals = [pair for pair in mine if is_library(pair[1].kernel) and pair[1].accuracy == accuracy]
        beside = f"; of the libraries beside them: {_named_speed(rivals)}" if rivals else ""
        fastest = _named_speed([pair for pair in own if pair[1].accuracy == accuracy])
        yield f"Fastest of the hand-written kernels on {dtype}{to}: {fastest}{beside}."


def _named_speed(group: Sequence[Pair]) -> str:
    result, measurement = max(group, key=lambda pair: speed(pair[1]))
    ratio = result.fraction_of_baseline
    share = f", {percent(ratio.value)} of the baseline there" if ratio and result.case != result.baseline else ""
    return f"{measurement.label} at {shape(measurement)} with {figure(measurement.gflops)} GFLOPS{share}"


def tile_configs(pairs: Sequence[Pair]) -> Iterator[Block]:
    """The best config of each kernel for each shape at which several were measured, and why it is the best."""
    choices = [choice for choice in best_configs(measurement for _, measurement in pairs) if choice.second is not None]
    if not choices:
        return
    yield Heading(2, "Tile configs")
    rows = tuple(_choice_row(choice, choice.second) for choice in choices if choice.second)
    head = ("kernel and shape", "fastest config", "GFLOPS", "second", "over it", "what the fastest has over the second")
    caption = "The fastest config of each kernel for each shape, by the parameters in which it differs from the second"
    yield Table(caption, head, rows[:MAX_ROWS], words=True)
    yield from _more(rows)
    yield plot("block-sizes")
    yield plot("heatmap")


def _more(rows: Sequence[object]) -> Iterator[Text]:
    if len(rows) > MAX_ROWS:
        yield Text(f"{len(rows) - MAX_ROWS} more are in the CSV file.")


def _choice_row(choice: Best, second: Measurement) -> tuple[str, ...]:
    first = choice.measurement
    names = [name for name, value in first.config.items() if second.config.get(name) != value]
    return (
        f"{first.label}, {first.dtype}, {shape(first)}",
        config((name, first.config[name]) for name in names),
        figure(first.gflops),
        config((name, second.config[name]) for name in names if name in second.config),
        times(choice.ratio),
        " ".join(choice.reasons[:MAX_REASONS]) or "Nothing that is known of them tells the two apart.",
    )


def correctness(pairs: Sequence[Pair]) -> Iterator[Block]:
    """The largest errors of each kernel and element type."""
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
    """Cases without figures; those of one kernel with the same reason share a row."""
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
    yield from _more(rows)
