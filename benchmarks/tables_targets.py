"""What docs/performance.md says of the fast kernels: each target, and what a recorded run reached."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from analysis.result_models import CaseResult, Results
from benchmarks.kernel_targets import TARGETS, Bounds, Target
from scripts.markdown import table

COLUMNS = ("kernel", "N", "TFLOPS", "cuBLAS", "ratio", "interval", "must", "aim", "")
BESIDE = ("error", "cuBLAS's", "SM clock, MHz", "W", "W, cuBLAS")


def read(path: Path) -> dict[str, Results]:
    """By kernel. Raises pydantic.ValidationError."""
    return {name: Results.model_validate(each) for name, each in json.loads(path.read_bytes()).items()}


def kernel_targets(runs: Mapping[str, Results], among: Sequence[Target] = TARGETS) -> Iterator[str]:
    """A section; nothing where no kernel with a target was measured."""
    measured = [(target, runs[target.kernel]) for target in among if target.kernel in runs]
    if not measured:
        return
    yield f"## Fast kernels beside the library, on an {measured[0][1].device['name']}"
    yield (
        "Recorded by `make bench-kernels`: kernel time, operands on the device in rows at a padded pitch for both, the "
        "library of the same element type and accuracy in every round. Ratio: speed over the library's, with its 95 % "
        "interval. Error: relative Frobenius norm against float64. Random normal operands, cold cache."
    )
    yield table((*COLUMNS, *BESIDE), [row for target, run in measured for row in _rows(target, run)]).rstrip()


def _rows(target: Target, run: Results) -> Iterator[tuple[str, ...]]:
    by_case = {case.case: case for case in run.cases}
    for n, bounds in sorted(target.bounds.items()):
        case = next((one for one in run.cases if (one.kernel, one.n) == (target.kernel, n)), None)
        if case is None:
            yield (f"`{target.kernel}`", str(n), "not measured", *[""] * (len(COLUMNS) + len(BESIDE) - 3))
        else:
            yield _row(case, by_case.get(case.baseline or ""), bounds)


def _row(case: CaseResult, library: CaseResult | None, bounds: Bounds) -> tuple[str, ...]:
    must, aim = bounds
    ratio = case.fraction_of_baseline
    return (
        f"`{case.kernel}`",
        str(case.n),
        f"{case.gflops / 1e3:.1f}" if case.gflops else case.status,
        _figure(library.gflops / 1e3 if library and library.gflops else None, ".1f"),
        _figure(ratio.value if ratio else None, ".3f"),
        f"{ratio.lo:.3f} to {ratio.hi:.3f}" if ratio else "",
        f"{must:g}",
        f"{aim:g}",
        "" if ratio is None else "aim" if ratio.value >= aim else "reached" if ratio.value >= must else "missed",
        _figure(case.error_vs_float64, ".2e"),
        _figure(library.error_vs_float64 if library else None, ".2e"),
        _figure(case.state.sm_clock_mhz, ".0f"),
        _figure(case.state.power_w_mean, ".0f"),
        _figure(library.state.power_w_mean if library else None, ".0f"),
    )


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"
