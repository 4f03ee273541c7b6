"""The plot of docs/performance.md: speed over N of the fast kernels and of cuBLAS, as `make bench-kernels` recorded
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING

from analysis.plots.style import COLOURS, FAINT, GRID, INK, rendered, sizes_axis, values_axis
from analysis.result_models import CaseResult, Results
from benchmarks.exactness import is_as_exact
from benchmarks.kernel_targets import AUTO, CURVES, TARGETS, Target
from benchmarks.tables.targets import beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN, PANEL_IN, FOOT_IN, ACROSS = 9.0, 2.7, 0.5, 2
ENOUGH = 4  # sizes for a line of speed by N; series with fewer are only in the table
OURS, DROP = COLOURS[0], COLOURS[1]
# For each line: colour, dashes, marker.
STYLES = {
    "ours": (OURS, "-", "o"),
    "ours, odd N": (OURS, (0, (4, 1.5)), "s"),
    "cuBLAS": (INK, "-", "o"),
    "cuBLAS by default, odd N, padded rows": (DROP, (0, (4, 1.5)), "s"),
    "cuBLAS by default, odd N, dense rows": (FAINT, (0, (1.5, 1.2)), "^"),
    "cuBLAS zero-padded or tuned, odd N": (COLOURS[2], (0, (4, 1.5)), "D"),
}
Line = tuple[tuple[int, float], ...]  # N and TFLOPS


def lines(kernel: str, runs: Mapping[str, Results], among: Sequence[Target]) -> dict[str, Line]:
    """By their names in STYLES, for square products alone; lines of one point are left out."""
    mine = [target for target in among if target.kernel == kernel and not target.config]
    pitched = [case for one in mine if one.name in runs for case in runs[one.name].cases]
    dense = [case for one in mine if one.dense_name in runs for case in runs[one.dense_name].cases]
    found = {
        "ours": _line(pitched, kernel, odd=False),
        "ours, odd N": _line(pitched, kernel, odd=True),
        "cuBLAS": _line(pitched, None, odd=False),
        "cuBLAS by default, odd N, padded rows": _line(pitched, None, odd=True),
        "cuBLAS by default, odd N, dense rows": _line(dense, None, odd=True),
        "cuBLAS zero-padded or tuned, odd N": _padded_line(mine, runs),
    }
    return {name: line for name, line in found.items() if len(line) > 1}


def _line(cases: Sequence[CaseResult], kernel: str | None, *, odd: bool) -> Line:
    """The line of a kernel, or with None that of the baselines."""
    errors = {case.case: case.error_vs_float64 for case in cases}
    points: dict[int, float] = {}
    for case in cases:
        square = case.m == case.n == case.k and case.batch == 1 and case.n % 2 == odd
        is_mine = case.case == case.baseline if kernel is None else case.kernel == kernel and is_as_exact(case, errors)
        if square and is_mine and case.gflops:
            points[case.n] = max(points.get(case.n, 0.0), case.gflops / 1e3)
    return tuple(sorted(points.items()))


def _padded_line(among: Sequence[Target], runs: Mapping[str, Results]) -> Line:
    """The library's speed with odd sizes padded, counting useful operations alone."""
    points: dict[int, float] = {}
    for one in (each for target in among if target.name in runs for each in beside(target, runs)):
        times = [case.kernel_ms for case in (one.library_padded, one.library_tuned) if case and case.kernel_ms]
        if one.shape.n % 2 and times:
            points[one.shape.n] = one.ours.flops / min(times) / 1e9
    return tuple(sorted(points.items()))


def draw(runs: Mapping[str, Results], among: Sequence[Target] = (*TARGETS, *CURVES)) -> Figure:
    """A panel for each kernel that was measured."""
    from matplotlib.figure import Figure

    panels = dict(_panels(runs, among))
    rows = ceil(len(panels) / ACROSS)
    height_in = rows * PANEL_IN + FOOT_IN
    figure = Figure(figsize=(WIDTH_IN, height_in))
    figure.set_layout_engine("constrained", rect=(0.0, FOOT_IN / height_in, 1.0, 1 - FOOT_IN / height_in))
    axes = list(figure.subplots(rows, ACROSS, squeeze=False).flat)
    for one, (title, found) in zip(axes, panels.items(), strict=False):
        _panel(one, title, found)
    for spare in axes[len(panels) :]:
        spare.set_visible(False)
    handles = {
        label: handle for one in figure.axes for handle, label in zip(*one.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=3, handlelength=3.0)
    return figure


def _panels(runs: Mapping[str, Results], among: Sequence[Target]) -> Iterator[tuple[str, dict[str, Line]]]:
    for kernel, dtype in dict.fromkeys((one.kernel, one.dtype) for one in among if one.kernel != AUTO):
        found = lines(kernel, runs, among)
        if len(found.get("ours", ())) >= ENOUGH:
            yield f"{kernel}, {dtype} operands", found


def _panel(axes: Axes, title: str, found: Mapping[str, Line]) -> None:
    for name, line in found.items():
        colour, dashes, marker = STYLES[name]
        x, y = zip(*line, strict=True)
        axes.plot(x, y, label=name, color=colour, linestyle=dashes, marker=marker, markersize=3.2)
    axes.set_title(title)
    values_axis(axes, "TFLOPS", log=False)
    sizes_axis(axes, [n for line in found.values() for n, _ in line if n % 2 == 0], label="N (m = n = k)")
    axes.grid(visible=True, which="major", color=GRID)


def picture(runs: Mapping[str, Results]) -> bytes | None:
    """The plot as SVG; None if nothing that it shows was measured."""
    among = (*TARGETS, *CURVES)
    return rendered(lambda: draw(runs, among), "svg") if dict(_panels(runs, among)) else None
