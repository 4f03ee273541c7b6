"""Reports of thousands of cases: work rises with their number, not with its square. Calls are counted, not seconds."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from analysis.curves import curves
from analysis.dips import features
from analysis.library import baseline_fractions
from analysis.measurement import Measurement
from analysis.plots import winners
from analysis.plots.figures import MAX_MARKS, figure
from analysis.plots.lines import GFLOPS, by_size
from tests.support.recorded import made

FEW = 150
NEAR_LINEAR = 2.6  # times the calls for twice the cases; squares would be 4


def many(count: int, *labels: str) -> list[Measurement]:
    """Each kernel at that many sizes, with speeds that lie off each other, so that most points are dips or peaks."""
    noise = random.Random(7)
    return [
        made(n, gflops=noise.uniform(100.0, 1000.0), label=label, kernel=label)
        for label in labels
        for n in range(64, 64 + 8 * count, 8)
    ]


def calls(work: Callable[[], Any]) -> int:
    """How many functions are called, built-in ones included."""
    count = 0

    def on_event(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def of_curves(measurements: Sequence[Measurement]) -> list[object]:
    return [feature for curve in curves(measurements) for feature in features(curve)]


@pytest.mark.parametrize("work", [of_curves, winners.winners, baseline_fractions])
def test_work_rises_with_the_number_of_cases(work: Callable[[Sequence[Measurement]], object]) -> None:
    few, twice = (many(count, "register_tiled", "cublas") for count in (FEW, 2 * FEW))
    work(few)
    assert calls(lambda: work(twice)) < NEAR_LINEAR * calls(lambda: work(few))


def test_a_grid_of_many_sizes_names_some_of_them() -> None:
    shown = winners.winners(many(FEW, "register_tiled", "cublas"))
    axes: Any = winners.figure(shown).axes[0]
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels[0] == "64" and len(labels) <= winners.MAX_LABELS
    assert [shown[0].sizes[round(place)] for place in axes.get_xticks()] == labels


def test_a_grid_of_many_sizes_has_a_colour_for_each_cell_which_no_edge_or_frame_covers() -> None:
    axes: Any = winners.figure(winners.winners(many(FEW, "register_tiled", "cublas"))).axes[0]
    mesh, best = axes.collections
    assert len(axes.patches) == 0 and mesh.get_array().size == FEW
    assert mesh.get_rasterized() and not mesh.get_edgecolor().size
    (bars,) = best.get_paths()  # one path for all of them
    starts = [*np.flatnonzero(bars.codes == bars.MOVETO), len(bars.vertices)]
    heights = [np.ptp(bars.vertices[start : start + 4, 1]) for start in starts[:-1]]
    assert len(heights) == FEW and max(heights) <= 0.25


def test_marks_of_a_long_line_stand_apart_and_the_line_has_every_point() -> None:
    for count in (MAX_MARKS, 5 * MAX_MARKS):
        chart = by_size(many(count, "register_tiled"), GFLOPS)
        axes: Any = figure(chart).axes[0]
        (line,) = (one for one in axes.get_lines() if one.get_label() == "register_tiled")
        assert len(line.get_xdata()) == count
        marked = line.get_markevery()
        if count == MAX_MARKS:
            assert marked is None
            continue
        steps = [after / before for before, after in pairwise(line.get_xdata()[place] for place in marked)]
        assert 10 < len(marked) <= MAX_MARKS + 1 and min(steps) > 1.01 and marked[0] == 0
