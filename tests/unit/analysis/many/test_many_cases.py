"""Reports of thousands of cases: work rises with their number, not with its square. Calls are counted, not seconds."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from analysis.curves import curves
from analysis.dips import features
from analysis.library import baseline_fractions
from analysis.measurement import Measurement
from analysis.plots import winners
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
    (axes,) = winners.figure(shown).axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels[0] == "64" and len(labels) <= winners.MAX_LABELS
    assert [shown[0].sizes[round(place)] for place in axes.get_xticks()] == labels
    assert len(axes.patches) == 0 and len(axes.collections[-1].get_paths()) == FEW
