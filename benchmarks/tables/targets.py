"""What docs/performance.md says of the fast kernels: each target, and what a recorded run reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from analysis.result_models import CaseResult, Ratio, Results
from benchmarks.kernel_targets import AUTO, PADDED_TO, TARGETS, Bounds, Target, TargetShape
from benchmarks.measure.auto_sample import geometric_mean
from benchmarks.recorded import read as read_record
from tools.markdown import table

COLUMNS = (
    "kernel",
    "size",
    "TFLOPS",
    "dense rows",
    "baseline",
    "baseline, dense rows",
    "baseline, zero-padded",
    "ratio",
    "interval",
    "ratio to zero-padded",
    "must",
    "aim",
    "",
)
NOT_RECORDED = "not recorded"
BESIDE = ("kernel", "size", "error", "SM clock, MHz", "W", "°C", "baseline's error", "SM clock, MHz", "W", "°C")


def read(path: Path) -> dict[str, Results]:
    """By a target's name. Raises pydantic.ValidationError."""
    return {name: Results.model_validate(each) for name, each in read_record(path).items()}


@dataclass(frozen=True, slots=True)
class Beside:
    """A target at a shape: our case and the library's, on padded rows and, where they were measured, on dense ones.

    `library_padded` is the library on operands that are padded with zeros to whole multiples: the same useful work.
    """

    target: Target
    shape: TargetShape
    ours: CaseResult
    library: CaseResult | None
    dense: CaseResult | None
    library_dense: CaseResult | None
    library_padded: CaseResult | None = None

    @property
    def named(self) -> str:
        """The kernel, what was asked of it, and what it is held against where that is no library's."""
        asked = "".join(f", `{name}` {value}" for name, value in self.target.config.items())
        over = "" if self.target.baseline == "auto" else f" over `{self.target.baseline}`"
        return f"`{self.ours.kernel}`{asked}{over}"

    @property
    def better(self) -> CaseResult | None:
        """The library's faster case of the two."""
        known = [case for case in (self.library, self.library_dense) if case is not None and case.gflops]
        return max(known, key=lambda case: case.gflops or 0.0, default=None)

    @property
    def ratio(self) -> Ratio | None:
        """Our speed on padded rows over the better of the library's two."""
        if self.better is None or self.better is self.library:
            return self.ours.fraction_of_baseline
        return _unpaired(self.ours, self.better)

    @property
    def ratio_to_padded(self) -> Ratio | None:
        """Our speed over the library's on padded operands, both by the useful operations alone."""
        return _unpaired(self.ours, self.library_padded) if self.library_padded else None


def _unpaired(ours: CaseResult, other: CaseResult) -> Ratio | None:
    """Of cases of two benchmarks: of their medians, and of the far ends of the intervals of both."""
    if not (ours.kernel_ms and other.kernel_ms):
        return None
    (lo, hi), (least, most) = _ends_ms(ours), _ends_ms(other)
    return Ratio(value=other.kernel_ms / ours.kernel_ms, lo=least / hi, hi=most / lo)


def _ends_ms(case: CaseResult) -> tuple[float, float]:
    """Of the median, by its interval and by the rounds' own medians."""
    medians = [each.kernel_ms for each in case.rounds if each.kernel_ms]
    ends = [us / 1e3 for us in (case.ci95_lo_us, case.ci95_hi_us) if us]
    known = medians + ends or [case.kernel_ms or 0.0]
    return min(known), max(known)


def beside(target: Target, runs: Mapping[str, Results]) -> Iterator[Beside]:
    """The target's shapes that were measured on padded rows."""
    pitched, dense, padded = (runs.get(name) for name in (target.name, target.dense_name, target.padded_name))
    if pitched is None:
        return
    for shape in target.by_shape:
        if (ours := _case(target, shape, pitched)) is not None:
            ours_dense = _case(target, shape, dense) if dense else None
            libraries = _library(ours, pitched), _library(ours_dense, dense)
            whole = target.padded_shapes.get(shape)
            at_whole = _at(whole, padded)[:1] if whole and padded else ()
            yield Beside(target, shape, ours, libraries[0], ours_dense, libraries[1], *at_whole)


def _at(shape: TargetShape, run: Results) -> list[CaseResult]:
    return [case for case in run.cases if (case.m, case.n, case.k, case.batch) == shape]


def _case(target: Target, shape: TargetShape, run: Results) -> CaseResult | None:
    """Its own case, or the library's where that is what `auto` took."""
    at = _at(shape, run)
    if target.kernel == AUTO:
        return next((case for case in at if case.case != case.baseline), at[0] if at else None)
    return next((case for case in at if case.kernel == target.kernel), None)


def _library(case: CaseResult | None, run: Results | None) -> CaseResult | None:
    if case is None or run is None:
        return None
    return next((one for one in run.cases if one.case == case.baseline), None)


def kernel_targets(runs: Mapping[str, Results], among: Sequence[Target] = TARGETS) -> Iterator[str]:
    """A section; nothing where no kernel with a target was measured."""
    measured = [target for target in among if target.name in runs]
    if not measured:
        return
    yield f"## Fast kernels beside the library, on an {runs[measured[0].name].device['name']}"
    yield (
        f"Recorded by `make bench-kernels`, {_when([runs[target.name] for target in measured])}: kernel time, operands "
        "on the device; random normal operands, cold cache. "
        "The baseline, in every round, is the library's kernel of the same element type and accuracy, but where "
        "another is named. Rows begin at a padded pitch, as the service lands them. Sizes whose rows are no "
        "multiple of 16 bytes are measured on dense rows too, where our kernel first copies them to a pitch, in the "
        "time shown. Ratio: our speed on padded rows over that of the baseline, which is the library at its default "
        "heuristic on the operands as they lie, on those of both kinds of rows that it is faster on, with its 95 % "
        "interval; rounds are paired where both are on padded rows. A bound is reached where the interval's lower end "
        f"reaches it. Zero-padded: the library on operands padded to multiples of {PADDED_TO} in m, n and k, copies "
        "not counted, by the useful operations alone; at odd sizes that can be much faster."
    )
    yield table(COLUMNS, [row for target in measured for row in _speeds(target, runs)]).rstrip()
    yield (
        "Error: relative Frobenius norm against float64. Clock, power and heat of our kernel on padded rows, and of "
        "the library on those rows that the ratio is of. Power: the mean of the "
        "board's own readings while it was timed."
    )
    yield table(BESIDE, [row for target in measured for one in beside(target, runs) for row in _states(one)]).rstrip()


def _when(runs: Sequence[Results]) -> str:
    """From the first to the last, where they are not of one hour: kernels may be measured anew one by one."""
    ended = sorted(run.job.finished_at for run in runs if run.job.finished_at is not None)
    if not ended:
        return "at a time that is not known"
    first, last = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (ended[0], ended[-1]))
    if ended[-1] - ended[0] < timedelta(hours=1):
        return f"until {last}"
    return f"kernel by kernel, from {first} to {last}, each beside its baseline"


def _speeds(target: Target, runs: Mapping[str, Results]) -> Iterator[tuple[str, ...]]:
    by_shape = {one.shape: one for one in beside(target, runs)}
    for shape in target.by_shape:
        if shape in by_shape:
            yield _speed(by_shape[shape])
        else:
            yield _padded(f"`{target.kernel}`", str(shape), "not measured")
    ratios = [one.ratio for one in by_shape.values() if one.ratio]
    if target.mean is not None and len(ratios) == len(target.by_shape):
        mean, least = geometric_mean([one.value for one in ratios]), geometric_mean([one.lo for one in ratios])
        blank = ("",) * (COLUMNS.index("ratio") - 2)
        figures = f"{mean:.3f}", f"{least:.3f} at least", ""
        yield _padded(f"`{target.kernel}`", "geometric mean", *blank, *figures, *_held(least, target.mean))


def _speed(measured: Beside) -> tuple[str, ...]:
    ratio, to_padded = measured.ratio, measured.ratio_to_padded
    unknown = NOT_RECORDED if measured.shape in measured.target.padded_shapes else ""
    return (
        measured.named,
        str(measured.shape),
        *(_tflops(case) for case in (measured.ours, measured.dense, measured.library, measured.library_dense)),
        _useful_tflops(measured) or unknown,
        _figure(ratio.value if ratio else None, ".3f"),
        f"{ratio.lo:.3f} to {ratio.hi:.3f}" if ratio else "",
        _figure(to_padded.value if to_padded else None, ".3f") or unknown,
        *_held(ratio.lo if ratio else None, measured.target.by_shape[measured.shape]),
    )


def _states(measured: Beside) -> Iterator[tuple[str, ...]]:
    if measured.ours.gflops:
        yield measured.named, str(measured.shape), *_state(measured.ours), *_state(measured.better)


def _state(case: CaseResult | None) -> tuple[str, str, str, str]:
    if case is None:
        return "", "", "", ""
    return (
        _figure(case.error_vs_float64, ".2e"),
        _figure(case.state.sm_clock_mhz, ".0f"),
        _figure(case.state.power_w_mean, ".0f"),  # energy is of a loop, not of these launches
        _figure(case.state.temp_c_max, ".0f"),
    )


def _tflops(case: CaseResult | None) -> str:
    """The speed, or why there is none."""
    if case is None:
        return ""
    return f"{case.gflops / 1e3:.1f}" if case.gflops else case.status


def _useful_tflops(measured: Beside) -> str:
    """Speed of the library on padded operands, padding not counted as work."""
    padded = measured.library_padded
    return f"{measured.ours.flops / padded.kernel_ms / 1e9:.1f}" if padded and padded.kernel_ms else ""


def _held(ratio: float | None, bounds: Bounds | None) -> tuple[str, str, str]:
    """What it must reach, what it aims at, and what the lower end of the ratio's interval did."""
    if bounds is None:
        return "", "", ""
    must, aim = bounds
    verdict = "" if ratio is None else "aim" if ratio >= aim else "reached" if ratio >= must else "missed"
    return f"{must:g}", f"{aim:g}", verdict


def _padded(*cells: str) -> tuple[str, ...]:
    return (*cells, *[""] * (len(COLUMNS) - len(cells)))


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"
