"""The section of docs/performance.md on the fast kernels: each target, and what a recorded run reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median

from analysis.result_models import CaseResult, Ratio, Results
from benchmarks.kernel_targets import AUTO, PADDED_TO, TARGETS, Bounds, Target, TargetShape
from benchmarks.measure.auto_sample import geometric_mean
from benchmarks.recorded import read as read_record
from benchmarks.tables.where import cards, when
from jobs.benchmarks.statistics import ci95
from kernels.model.numerics import DTYPES
from tools.markdown import table

COLUMNS = (
    "kernel",
    "size",
    "TFLOPS",
    "dense rows",
    "baseline",
    "baseline, dense rows",
    "baseline, zero-padded",
    "baseline, tuned",
    "ratio",
    "interval",
)
BOUND_COLUMNS = ("kernel", "size", "ratio", "interval", "must", "aim", "")
NOT_RECORDED = "not recorded"
BESIDE = ("kernel", "size", "error", "SM clock, MHz", "mJ", "°C", "baseline's error", "SM clock, MHz", "mJ", "°C")


def read(path: Path) -> dict[str, Results]:
    """By a target's name. Raises pydantic.ValidationError."""
    return {name: Results.model_validate(each) for name, each in read_record(path).items()}


@dataclass(frozen=True, slots=True)
class Beside:
    """A target at a shape: our case and the library's, on padded rows and, if they were measured, on dense ones.

    `library_padded` is the library on operands padded with zeros to whole multiples: the same useful work.
    `library_tuned` is its fastest algorithm, padded or not, in the rounds of our own case.
    """

    target: Target
    shape: TargetShape
    ours: CaseResult
    library: CaseResult | None
    dense: CaseResult | None
    library_dense: CaseResult | None
    library_padded: CaseResult | None = None
    library_tuned: CaseResult | None = None

    @property
    def named(self) -> str:
        """The kernel, its requested config, and its baseline if that is not a library's."""
        return _named(self.ours.kernel, self.target)

    @property
    def best(self) -> CaseResult | None:
        """The library's fastest case: all do the same useful work."""
        cases = self.library, self.library_dense, self.library_padded, self.library_tuned
        known = [case for case in cases if case and case.kernel_ms]
        return min(known, key=lambda case: case.kernel_ms or inf, default=None)

    @property
    def ratio(self) -> Ratio | None:
        """Our speed on padded rows over the library's best, both counting useful operations alone."""
        if self.best is None or self.best is self.library:
            return self.ours.fraction_of_baseline
        if self.best is self.library_tuned:
            return _paired(self.ours, self.best)
        return _unpaired(self.ours, self.best)


def _named(kernel: str, target: Target) -> str:
    asked = "".join(f", `{name}` {value}" for name, value in target.config.items())
    over = "" if target.baseline == "auto" else f" over `{target.baseline}`"
    of = f" of {target.dtype}" if DTYPES[target.dtype].is_complex else ""
    return f"`{kernel}`{of}{asked}{over}"


def _paired(ours: CaseResult, other: CaseResult) -> Ratio | None:
    """For cases of the same rounds: the median of the rounds' ratios, with its 95 % interval. Fewer than six have none:
    they count as unpaired."""
    times = {each.round: each.kernel_ms for each in other.rounds if each.kernel_ms}
    ratios = [times[each.round] / each.kernel_ms for each in ours.rounds if each.kernel_ms and each.round in times]
    interval = ci95(sorted(ratios))
    return Ratio(value=median(ratios), lo=interval[0], hi=interval[1]) if interval else _unpaired(ours, other)


def _unpaired(ours: CaseResult, other: CaseResult) -> Ratio | None:
    """For cases of two benchmarks: the ratio of their medians, and of the far ends of both intervals."""
    if not (ours.kernel_ms and other.kernel_ms):
        return None
    (lo, hi), (other_lo, other_hi) = _ends_ms(ours), _ends_ms(other)
    return Ratio(value=other.kernel_ms / ours.kernel_ms, lo=other_lo / hi, hi=other_hi / lo)


def _ends_ms(case: CaseResult) -> tuple[float, float]:
    """The ends of the median's interval, including the rounds' own medians."""
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
            at_whole = next(iter(_at(whole, padded)), None) if whole and padded else None
            tuned = next((case for case in _at(shape, pitched) if case.kernel == target.tuned_library), None)
            yield Beside(target, shape, ours, libraries[0], ours_dense, libraries[1], at_whole, tuned)


def _at(shape: TargetShape, run: Results) -> list[CaseResult]:
    return [case for case in run.cases if (case.m, case.n, case.k, case.batch) == shape]


def _case(target: Target, shape: TargetShape, run: Results) -> CaseResult | None:
    """Its own case, or the library's if that is what `auto` took."""
    at = _at(shape, run)
    if target.kernel == AUTO:
        return next((case for case in at if case.case != case.baseline), at[0] if at else None)
    return next((case for case in at if case.kernel == target.kernel and _is_own(target, case)), None)


def _is_own(target: Target, case: CaseResult) -> bool:
    """Whether it has the config that the target requests, and not one that is measured in addition."""

    def has(config: Mapping[str, int]) -> bool:
        return config.items() <= dict(case.config).items()

    return has(target.config) and not any(has(other) for other in target.others)


def _library(case: CaseResult | None, run: Results | None) -> CaseResult | None:
    if case is None or run is None:
        return None
    return next((one for one in run.cases if one.case == case.baseline), None)


def kernel_targets(runs: Mapping[str, Results], among: Sequence[Target] = TARGETS) -> Iterator[str]:
    """The parts of the section; empty if no kernel with a target was measured."""
    measured = [target for target in among if target.name in runs]
    if not measured:
        return
    recorded = [runs[target.name] for target in measured]
    yield f"## Fast kernels beside the library, on an {recorded[0].device['name']}"
    yield (
        f"Recorded by `make bench-kernels`, {when(recorded)}: kernel time, operands "
        f"on the device; random normal operands, cold cache. {cards(recorded)}"
        "The baseline, in every round, is the library's kernel of the same element type and accuracy, but where "
        "another is named. Rows begin at a padded pitch, as on the device of a worker. Sizes whose rows are no "
        "multiple of 16 bytes are measured on dense rows too, where our kernel first copies them to a pitch, in the "
        f"time shown. Zero-padded: the library on operands padded to multiples of {PADDED_TO} in m, n and k, copies "
        "not counted, by the useful operations alone. Tuned: the fastest of what cublasLt proposes, for sizes as they "
        "are and for padded ones; where it was not part of this run, the first table of this page has it from another "
        "one. Ratio: our speed on padded rows over the fastest of these, with its 95 % interval. Rounds are paired "
        "where both are on padded rows."
    )
    yield table(COLUMNS, [row for target in measured for row in _speeds(target, runs)]).rstrip()
    yield (
        "Error: relative Frobenius norm against float64. Clock and heat of our kernel on padded rows, and of the "
        "library in the case that the ratio is of. Energy: of one launch in a steady loop, where it was measured. In "
        "such a loop the card may reach its power limit and run slower than in the samples above, so energy over "
        "kernel time is not a power."
    )
    yield table(BESIDE, [row for target in measured for one in beside(target, runs) for row in _states(one)]).rstrip()


def target_bounds(runs: Mapping[str, Results], among: Sequence[Target] = TARGETS) -> Iterator[str]:
    """The project's own targets, in a section of their own."""
    measured = [target for target in among if target.name in runs]
    if rows := [row for target in measured for row in _held_rows(target, runs)]:
        yield f"## What the kernels are to reach, on an {runs[measured[0].name].device['name']}"
        yield (
            "The project's own targets for the ratios of the section on fast kernels. A bound is reached where the "
            "interval's lower end reaches it."
        )
        yield table(BOUND_COLUMNS, rows).rstrip()


def _held_rows(target: Target, runs: Mapping[str, Results]) -> Iterator[tuple[str, ...]]:
    for one in beside(target, runs):
        if (bounds := target.by_shape[one.shape]) is not None:
            yield one.named, str(one.shape), *_ratio(one.ratio), *_held(one.ratio.lo if one.ratio else None, bounds)
    if target.mean is not None and (mean := _mean(target, runs)):
        yield f"`{target.kernel}`", "geometric mean", *_of_mean(mean), *_held(mean.lo, target.mean)


def _mean(target: Target, runs: Mapping[str, Results]) -> Ratio | None:
    """Over all shapes of the target; None if one is missing."""
    ratios = [one.ratio for one in beside(target, runs) if one.ratio]
    if len(ratios) < len(target.by_shape):
        return None
    mean, lo, hi = (geometric_mean([getattr(one, end) for one in ratios]) for end in ("value", "lo", "hi"))
    return Ratio(value=mean, lo=lo, hi=hi)


def _of_mean(mean: Ratio) -> tuple[str, str]:
    return f"{mean.value:.3f}", f"{mean.lo:.3f} at least"


def _speeds(target: Target, runs: Mapping[str, Results]) -> Iterator[tuple[str, ...]]:
    by_shape = {one.shape: one for one in beside(target, runs)}
    for shape in target.by_shape:
        if shape in by_shape:
            yield _speed(by_shape[shape])
        else:
            yield _padded(_named(target.kernel, target), str(shape), "not measured")
    if target.mean is not None and (mean := _mean(target, runs)):
        blank = ("",) * (COLUMNS.index("ratio") - 2)
        yield _padded(f"`{target.kernel}`", "geometric mean", *blank, *_of_mean(mean))


def _speed(measured: Beside) -> tuple[str, ...]:
    is_open = measured.shape in measured.target.padded_shapes and measured.library_tuned is None
    unknown = NOT_RECORDED if is_open else ""
    return (
        measured.named,
        str(measured.shape),
        *(tflops(case) for case in (measured.ours, measured.dense, measured.library, measured.library_dense)),
        useful_tflops(measured) or unknown,
        tflops(measured.library_tuned),
        *_ratio(measured.ratio),
    )


def _ratio(ratio: Ratio | None) -> tuple[str, str]:
    return (f"{ratio.value:.3f}", f"{ratio.lo:.3f} to {ratio.hi:.3f}") if ratio else ("", "")


def _states(measured: Beside) -> Iterator[tuple[str, ...]]:
    if measured.ours.gflops:
        yield measured.named, str(measured.shape), *_state(measured.ours), *_state(measured.best)


def _state(case: CaseResult | None) -> tuple[str, str, str, str]:
    if case is None:
        return "", "", "", ""
    return (
        _figure(case.error_vs_float64, ".2e"),
        _figure(case.state.sm_clock_mhz, ".0f"),
        _figure(case.energy_mj, ",.1f"),
        _figure(case.state.temp_c_max, ".0f"),
    )


def tflops(case: CaseResult | None) -> str:
    """The speed, or why there is none."""
    if case is None:
        return ""
    return f"{case.gflops / 1e3:.1f}" if case.gflops else case.status


def useful_tflops(measured: Beside) -> str:
    """Speed of the library on padded operands, with padding not counted as work."""
    padded = measured.library_padded
    return f"{measured.ours.flops / padded.kernel_ms / 1e9:.1f}" if padded and padded.kernel_ms else ""


def _held(ratio: float | None, bounds: Bounds) -> tuple[str, str, str]:
    """The required ratio, the desired one, and whether the lower end of the measured interval reaches them."""
    must, aim = bounds
    verdict = "" if ratio is None else "aim" if ratio >= aim else "reached" if ratio >= must else "missed"
    return f"{must:g}", f"{aim:g}", verdict


def _padded(*cells: str) -> tuple[str, ...]:
    return (*cells, *[""] * (len(COLUMNS) - len(cells)))


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"
