"""Dips, peaks and falls are found by rule, and explained by what differs in tiles, waves, rows and cache."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import dips
from analysis.curves import Curve, curves
from analysis.dips import Feature, features
from analysis.explain import Explanation, explain
from analysis.measurement import Device
from tests.support.recorded import h200, labelled, made, report

T4_CURVE = labelled(report("000"), "Optimized Result with block size=16")
SIZES = (256, 512, 1024, 1025, 2047, 2048, 4096)


def drawn(*points: tuple[int, float], **fields: object) -> Curve:
    (curve,) = curves([made(n, gflops=gflops, **fields) for n, gflops in points])
    return curve


def found(curve: Curve) -> list[tuple[str, int]]:
    return [(feature.kind, feature.point.n) for feature in features(curve)]


def at(curve: Curve, n: int) -> Feature:
    (feature,) = (feature for feature in features(curve) if feature.point.n == n)
    return feature


def because(curve: Curve, n: int) -> dict[str, Explanation]:
    return {explanation.factor: explanation for explanation in explain(at(curve, n))}


@pytest.mark.parametrize(("n", "ratio", "reference"), [(1025, 0.842, 1024), (2049, 0.893, 2048)])
def test_the_dips_of_report_000(n: int, ratio: float, reference: int) -> None:
    dip = at(T4_CURVE, n)
    assert (dip.kind, dip.reference.n, round(dip.ratio, 3)) == ("dip", reference, ratio)


def test_why_report_000_dips_at_1025() -> None:
    reasons = because(T4_CURVE, 1025)
    assert reasons["partial_tiles"].sentence == (
        "1025 takes 289 tiles of 64×64, 17×17, 33 of them partial, and 11.2 % of their work is padding; 1024 takes 256 "
        "tiles of 64×64, 16×16, 0 of them partial, and 0.0 % of their work is padding."
    )
    assert reasons["waves"].sentence == (
        "At 1025 40 multiprocessors share 289 blocks, 7.2 each, so the busiest has 8 and 9.7 % of the turns stay "
        "empty; "
        "at 1024 40 multiprocessors share 256 blocks, 6.4 each, so the busiest has 7 and 8.6 % of the turns stay empty."
    )
    assert reasons["partial_tiles"].expected_ratio == pytest.approx((1025 / 1088) ** 2)
    assert reasons["waves"].expected_ratio == pytest.approx((289 / 8) / (256 / 7))
    assert reasons["alignment"].expected_ratio is None


def test_why_report_000_dips_at_2049() -> None:
    reasons = because(T4_CURVE, 2049)
    assert "1089 tiles of 64×64, 33×33, 65 of them partial, and 5.9 %" in reasons["partial_tiles"].sentence
    assert "27.2 each, so the busiest has 28" in reasons["waves"].sentence


def test_report_002s_grid_grows_at_4097() -> None:
    reasons = because(labelled(report("002"), "bx=32, by=8, tile 128×128×64"), 4097)
    assert "4097 takes 1089 tiles of 128×128" in reasons["partial_tiles"].sentence
    assert "4096 takes 1024 tiles of 128×128" in reasons["partial_tiles"].sentence


def test_a_fifth_wave_on_the_h200() -> None:
    curve = labelled(h200(), "pipelined")
    assert at(curve, 4097).kind == "dip"
    reasons = because(curve, 4097)
    assert reasons["waves"].sentence == (
        "At 4097 561 blocks on 132 multiprocessors that hold 1 each are 4.25 waves, so 5 pass and 15.0 % of their "
        "places stay empty; at 4096 512 blocks on 132 multiprocessors that hold 1 each are 3.88 waves, so 4 pass and "
        "3.0 % of their places stay empty."
    )
    together = (reasons["waves"].expected_ratio or 0) * (reasons["partial_tiles"].expected_ratio or 0)
    assert together == pytest.approx((4097 / 4096) ** 2 * 4 / 5, abs=1e-3)


def test_a_second_block_on_some_multiprocessors_counts_though_both_find_room() -> None:
    assert (
        "share 153 blocks, 1.2 each, so the busiest has 2"
        in because(labelled(h200(), "pipelined"), 1025)["waves"].sentence
    )


def test_partial_tiles_count_where_nothing_is_padded() -> None:
    reasons = because(labelled(h200(), "pipelined"), 2047)
    assert list(reasons) == ["partial_tiles"] and "23 of them partial, and 0.1 %" in reasons["partial_tiles"].sentence


def test_naive_falls_where_the_l2_is_full() -> None:
    curve = labelled(h200(), "naive")
    fall = at(curve, 4096)
    assert (fall.kind, fall.reference.n) == ("fall", 2048)
    assert because(curve, 4096)["l2"].sentence == (
        "Operands and product take 201.3 MB at 4096, more than the L2 cache's 62.9 MB, and 50.3 MB at 2048, which fit."
    )


def test_a_library_takes_the_length_of_rows_into_account() -> None:
    """Rows are padded on the device in that run, and cuBLAS falls all the same."""
    reasons = because(labelled(h200(), "cublas_tf32"), 4097)
    assert list(reasons) == ["alignment"]
    assert reasons["alignment"].sentence.startswith(
        "Rows have lengths that are multiples of 4 bytes at 4097 and of 16 at"
    )


def test_rows_and_caches_that_are_not_known_explain_nothing() -> None:
    dip = drawn(*zip(SIZES, (100, 100, 100, 80, 100, 100, 100), strict=True), config={}, device=Device())
    assert explain(at(dip, 1025)) == ()
    fall = drawn(*zip(SIZES, (100, 100, 100, 100, 100, 100, 50), strict=True), config={}, device=Device())
    assert found(fall) == [("fall", 4096)] and explain(at(fall, 4096)) == ()


def test_alignment_means_nothing_on_a_cpu() -> None:
    blas = labelled(report("000"), "BLAS")
    assert [explain(feature) for feature in features(blas) if feature.point.n == 2047] == [()]


def test_a_peak_is_explained_by_what_is_better_there() -> None:
    reasons = because(T4_CURVE, 1600)
    assert at(T4_CURVE, 1600).kind == "peak"
    assert "1600 takes 625 tiles of 64×64, 25×25, 0 of them partial" in reasons["partial_tiles"].sentence
    assert list(reasons) == ["partial_tiles"] and (reasons["partial_tiles"].expected_ratio or 0) > 1


def test_a_peak_where_most_multiprocessors_are_busy() -> None:
    waves = because(labelled(report("002"), "Your Result"), 768)["waves"]
    assert "768 40 multiprocessors share 36 blocks" in waves.sentence
    assert waves.expected_ratio == pytest.approx(36 / 25)


@pytest.mark.parametrize(
    ("gflops", "features"),
    [
        ((100, 100, 100, 100, 100, 100, 100), []),
        ((10, 40, 100, 101, 102, 102, 103), []),  # rises and flattens
        ((100, 100, 150, 150, 150, 150, 150), []),  # 512 lies below the line, where the rise begins
        ((100, 100, 100, 90, 100, 100, 100), [("dip", 1025)]),
        ((100, 100, 100, 96, 100, 100, 100), []),  # less than 5 %
        ((100, 110, 100, 100, 100, 100, 100), [("peak", 512)]),
        ((100, 100, 100, 90, 90, 90, 90), [("fall", 1025)]),
        ((100, 100, 100, 100, 100, 100, 60), [("fall", 4096)]),  # an end, and far from its neighbour
        ((100, 100, 100, 90, 92, 100, 100), [("dip", 1025), ("dip", 2047)]),
    ],
)
def test_shapes_of_curves(gflops: tuple[float, ...], features: list[tuple[str, int]]) -> None:
    assert found(drawn(*zip(SIZES, gflops, strict=True))) == features


def test_what_comes_back_is_no_fall() -> None:
    assert found(drawn((256, 100), (512, 90), (1024, 90), (2048, 100))) == []


def test_the_deepest_goes_first() -> None:
    """650 before 800, between which 768 is as it should be."""
    assert found(T4_CURVE) == [
        *(("dip", n) for n in (400, 480, 650, 800, 1025, 1500)),
        ("peak", 1600),
        *(("dip", n) for n in (1800, 2049)),
        ("fall", 4095),
    ]


def test_ends_are_held_against_a_near_neighbour() -> None:
    assert found(drawn((255, 80), (256, 100), (512, 100))) == [("dip", 255)]
    assert found(drawn((512, 100), (4096, 100), (4097, 80))) == [("dip", 4097)]
    assert found(drawn((4096, 100))) == []


def test_noise_is_no_dip() -> None:
    curve = drawn((512, 100.0), (1024, 100.0), (1025, 90.0), (2048, 100.0))
    flops = made(1025).problem.flops
    blurred = replace(curve.points[2], kernel_ms=flops / 90e6, fastest_ms=flops / 99e6, q3_ms=flops / 85e6)
    noisy = (*curve.points[:2], blurred, curve.points[3])
    assert found(curve) == [("dip", 1025)] and found(replace(curve, points=noisy)) == []


def test_shapes_of_as_many_operations_share_a_size() -> None:
    speeds = {(256, 1024): 100.0, (128, 2048): 50.0, (1024, 256): 100.0}
    (curve,) = curves([made(m=m, n=n, k=512, gflops=gflops) for (m, n), gflops in speeds.items()])
    assert found(curve) == [("dip", 2048)]


speeds = st.lists(st.floats(1, 1e5), min_size=1, max_size=7)


@given(speeds, st.sampled_from([0.25, 0.5, 2.0, 1024.0]))
def test_features_do_not_depend_on_the_unit(gflops: list[float], scale: float) -> None:
    curve = drawn(*zip(SIZES, gflops, strict=False))
    assert found(drawn(*((n, scale * value) for n, value in zip(SIZES, gflops, strict=False)))) == found(curve)


@given(speeds)
def test_a_point_is_one_feature_at_most_and_never_its_own_reference(gflops: list[float]) -> None:
    marked = features(drawn(*zip(SIZES, gflops, strict=False)))
    assert len({feature.point.n for feature in marked}) == len(marked)
    assert all(feature.point is not feature.reference for feature in marked)
    assert all(feature.ratio < 1 or feature.kind == "peak" for feature in marked)


@given(st.lists(st.floats(0, 3), min_size=7, max_size=7))
def test_a_rising_curve_that_flattens_has_no_features(steps: list[float]) -> None:
    slopes, values = sorted(steps, reverse=True), [10.0]
    for (low, high), slope in zip(pairwise(SIZES), slopes, strict=False):
        values.append(values[-1] * (high / low) ** slope)
    assert found(drawn(*zip(SIZES, values, strict=True))) == []


def test_a_long_curve_is_judged_in_as_many_steps_as_it_has_points() -> None:
    """Each point that is set aside has its neighbours judged anew, and no others: with all of them, a report of
    thousands of cases would take minutes."""
    calls: list[dips._At] = []

    def counted(before: dips._At | None, point: dips._At, after: dips._At | None) -> float | None:
        calls.append(point)
        return dips._drop(before, point, after)

    zigzag = drawn(*((64 + 8 * at, 100.0 if at % 2 else 50.0 + at % 7) for at in range(400)))
    found = [dips._at(point) for point in zigzag.points]
    course, aside = dips._set_aside(found, counted)
    assert len(aside) > 150 and len(aside) + len(course) == len(found)
    assert len(calls) <= len(found) + 2 * len(aside)
    assert dips._set_aside(course, dips._drop) == (course, [])
