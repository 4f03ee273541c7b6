"""Copies against kernel: shares, bandwidth, and where the kernel takes over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.breakdown import BreakEven, break_even, breakdown
from analysis.curves import curves
from analysis.measurement import Measurement
from analysis.sources import recorded_device
from benchmarks.recorded import read
from tests.support.recorded import RESULTS, labelled, made, report

END_TO_END = RESULTS / "h200_end_to_end.json.gz"


def copied(n: int, kernel_ms: float, copies_ms: float, **fields: Any) -> Measurement:
    times = {"h2d_ms": 0.75 * copies_ms, "kernel_ms": kernel_ms, "d2h_ms": 0.25 * copies_ms, "gflops": 1.0}
    return made(n, **(times | fields))


def even(*points: tuple[int, float, float]) -> BreakEven | None:
    (curve,) = curves([copied(*point) for point in points])
    return break_even(curve)


def recorded(kernel: str) -> list[Measurement]:
    """Square float32 products of the recorded run through the whole service."""
    document = read(END_TO_END)
    (device,) = (one["device"] for one in document["devices"] if one["device"]["device_class"] == "gpu")
    jobs = [result["job"] for result in document["results"]]
    return [
        made(
            job["product"]["shape"][0],
            label=kernel,
            kernel=kernel,
            device=recorded_device(device),
            gflops=job["gflops"],
            **{name: job["timing"][name] for name in ("h2d_ms", "kernel_ms", "d2h_ms")},
        )
        for job in jobs
        if job["kernel"] == kernel and job["request"]["a"]["dtype"] == "float32"
        if job["product"]["shape"] == job["request"]["a"]["shape"]
    ]


def test_the_breakdown_of_report_003() -> None:
    found = {one.label: breakdown(one) for one in report("003")}
    naive = found["MatmulYrow"]
    assert naive is not None and naive.total_ms == pytest.approx(1135.82)
    assert naive.shares == pytest.approx((56.02 / 1135.82, 1035.42 / 1135.82, 44.38 / 1135.82))
    assert naive.h2d_gb_s == pytest.approx(2 * 4 * 8192**2 / 56.02e6)
    assert naive.d2h_gb_s == pytest.approx(4 * 8192**2 / 44.38e6)
    assert naive.gflops_with_copies == pytest.approx(2 * 8192**3 / 1135.82e6)
    assert found["Warp Tiling"] is None  # no copies are printed


def test_no_time_no_bandwidth() -> None:
    shared_memory = breakdown(copied(64, 1.0, 0.0))
    assert shared_memory is not None
    assert (shared_memory.h2d_gb_s, shared_memory.d2h_gb_s, shared_memory.kernel_over_copies) == (None, None, None)
    assert breakdown(copied(64, 1.0, 1.0, status="incorrect")) is None


def test_where_the_kernel_takes_over_on_the_h200() -> None:
    """naive: 3.2 ms beside 4.0 of copies at 2048, 48.4 beside 20.7 at 4097."""
    (curve,) = curves(recorded("naive"))
    crossing = break_even(curve)
    assert crossing is not None and crossing.where == "at" and 2048 < crossing.size < 4097
    assert crossing.sentence == f"From about {crossing.size:.0f} on the kernel takes longer than the copies."
    (library,) = curves(recorded("cublas"))
    assert break_even(library) == BreakEven(
        "above", 4097, "Copies take longer than the kernel up to 4097, the largest measured."
    )


def test_between_sizes_the_ratio_is_a_power() -> None:
    assert (found := even((512, 1, 4), (2048, 16, 4))) is not None and found.size == pytest.approx(1024)


def test_the_last_crossing_counts() -> None:
    assert (found := even((256, 1, 2), (512, 2, 1), (1024, 1, 2), (2048, 2, 1))) is not None
    assert found.where == "at" and found.size == pytest.approx(1024 * 2**0.5)


def test_outside_the_sizes_measured() -> None:
    below = break_even(labelled(report("003"), "MatmulYrow"))
    assert below is not None and (below.where, below.size) == ("below", 8192)
    assert below.sentence == "The kernel takes 10.31 times as long as the copies at 8192, the smallest measured."
    assert (above := even((256, 1, 2), (512, 1, 2))) is not None and (above.where, above.size) == ("above", 512)
    assert break_even(labelled(report("004"), "larger tiles, 32×32")) is None


times = st.floats(1e-3, 1e6)


@given(times, times, times)
def test_shares_make_a_whole(h2d_ms: float, kernel_ms: float, d2h_ms: float) -> None:
    found = breakdown(made(h2d_ms=h2d_ms, kernel_ms=kernel_ms, d2h_ms=d2h_ms))
    assert found is not None and sum(found.shares) == pytest.approx(1) and min(found.shares) > 0


@given(st.lists(st.tuples(times, times), min_size=2, max_size=6), st.sampled_from([0.25, 2.0, 4096.0]))
def test_break_even_does_not_depend_on_the_unit(points: list[tuple[float, float]], scale: float) -> None:
    sizes = [256 << place for place in range(len(points))]
    plain = even(*((n, *point) for n, point in zip(sizes, points, strict=True)))
    scaled = even(*((n, scale * a, scale * b) for n, (a, b) in zip(sizes, points, strict=True)))
    assert plain is not None and scaled is not None
    assert plain.where == scaled.where and plain.size == pytest.approx(scaled.size)
    assert sizes[0] <= plain.size * (1 + 1e-9) and plain.size <= sizes[-1] * (1 + 1e-9)
