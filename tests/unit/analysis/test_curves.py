"""Curves, speed-ups, fractions of the baseline and best configs, from the reports' tables and a recorded run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.configs import best_configs, why_better
from analysis.curves import curves, speed_ups
from analysis.library import baseline_fractions
from analysis.measurement import Device, Measurement
from tests.support.recorded import h200, labelled, made, report


def test_a_curve_has_the_fastest_of_each_size_in_order() -> None:
    curve = labelled(report("001"), "V3 shared memory tiling")
    assert [(point.n, point.config["tile"], point.gflops) for point in curve.points] == [
        (512, 32, 529.57),
        (1024, 32, 548.89),
        (2048, 16, 516.15),
    ]
    assert curve.gflops[0] == (512, 529.57)


def test_what_failed_has_no_point() -> None:
    assert [p.n for p in labelled(report("000"), "power-of-two restricted").points] == [256, 512, 1024, 2048]
    assert curves([made(gflops=100.0, status="implausible"), made(gflops=None)]) == ()


def test_devices_and_element_types_are_kept_apart() -> None:
    mixed = [made(gflops=1.0), made(gflops=2.0, dtype="float64"), made(gflops=3.0, device=Device(name="other"))]
    assert [len(curve.points) for curve in curves(mixed)] == [1, 1, 1]


def test_warp_tiling_over_the_tile_of_32_in_report_003() -> None:
    mine = [one for one in report("003") if one.kernel != "shared_tiled" or one.config["tile"] == 32]
    found = dict(zip((one.label for one in mine), speed_ups(mine, "shared_tiled"), strict=True))
    assert round(found["Warp Tiling"] or 0, 2) == 7.11
    assert found["TensorCore"] is None and found["MatmulYrow, integer"] is None


def test_speed_up_over_the_fastest_config() -> None:
    sweep = [made(gflops=10.0, config={"block_m": 8}), made(gflops=20.0, config={"block_m": 16})]
    assert speed_ups(sweep, "naive") == (0.5, 1.0)
    assert speed_ups(sweep[::-1], "naive") == (1.0, 0.5)
    assert speed_ups([*sweep, made(512, gflops=5.0, kernel="tiled")], "naive")[2] is None


def fractions(measurements: Sequence[Measurement]) -> dict[tuple[str | None, int], float | None]:
    """By kernel and size, of measurements that hold each once."""
    return {(one.kernel, one.n): own for one, own in zip(measurements, baseline_fractions(measurements), strict=True)}


def test_fractions_of_the_recorded_run_are_those_that_were_recorded() -> None:
    recorded = fractions(h200())
    assert recorded["pipelined", 4096] == pytest.approx(0.98381, abs=1e-4)
    assert recorded["pipelined", 4097] == pytest.approx(0.85701, abs=1e-4)
    assert recorded["cublas", 4096] == 1


def test_a_baseline_is_of_the_same_accuracy_class() -> None:
    """cublas_tf32 takes float32 operands and is no yardstick for float32 arithmetic, nor cuBLAS for it."""
    recorded = fractions(h200())
    assert recorded["cublas_tf32", 4096] == 1
    without = [one for one in h200() if one.kernel != "cublas"]
    assert {fraction for (kernel, _), fraction in fractions(without).items() if kernel == "naive"} == {None}
    laptop = fractions(report("003"))
    assert laptop["warp_tiled", 8192] == pytest.approx(9611.92 / 12431.02)
    assert laptop["tensor_wmma", 8192] is None


@given(st.lists(st.floats(0.1, 1e6), min_size=3, max_size=3))
def test_speed_ups_multiply(speeds: list[float]) -> None:
    ladder = [made(gflops=speed, kernel=name) for name, speed in zip("abc", speeds, strict=True)]
    over_a, over_b = speed_ups(ladder, "a"), speed_ups(ladder, "b")
    assert over_b[2] is not None and over_a[1] is not None
    assert over_a[2] == pytest.approx(over_b[2] * over_a[1]) and over_a[0] == 1


@given(st.floats(0.01, 100))
def test_speed_ups_do_not_depend_on_the_unit(scale: float) -> None:
    scaled = [replace(one, gflops=one.gflops * scale) for one in h200() if one.gflops]
    for before, after in zip(speed_ups(h200(), "naive"), speed_ups(scaled, "naive"), strict=True):
        assert (before, after) == (None, None) or before == pytest.approx(after)


def best_of_report_002() -> dict[int, tuple[str, tuple[str, ...]]]:
    shapes = [one for one in report("002") if one.label.startswith("bx=")]
    return {best.measurement.n: (best.measurement.label, best.reasons) for best in best_configs(shapes)}


def test_the_best_shapes_of_report_002() -> None:
    """As in its table of peaks."""
    assert {n: label for n, (label, _) in best_of_report_002().items()} == {
        256: "bx=16, by=16, tile 48×48×128",
        257: "bx=16, by=16, tile 48×48×128",
        512: "bx=32, by=8, tile 96×96×64",
        1024: "bx=32, by=8, tile 128×128×64",
        2048: "bx=32, by=8, tile 128×128×64",
        4096: "bx=32, by=8, tile 128×128×64",
        4097: "bx=32, by=8, tile 128×128×64",
    }


def test_the_reasons_give_both_numbers() -> None:
    best = best_of_report_002()
    assert best[256][1] == (
        "36 blocks fill 90.0 % of 1 turns of 40 multiprocessors; the second's 16 blocks fill 40.0 % of 1 turns of 40 "
        "multiprocessors.",
    )
    assert best[257][1][0] == "36 tiles of 48×48 are 20.4 % padding; the second's 25 tiles of 64×64 are 35.5 % padding."
    assert best[4097][1] == ("Its tiles do 30.6 operations for each byte they read, the second's 23.5.",)
    assert best[512][1] == ()  # the same tile in both, and nothing more is printed


def config(**fields: Any) -> Measurement:
    return made(kernel="shared_tiled", config={"tile": 16}, **fields)


def test_reasons_of_registers_and_occupancy() -> None:
    first = config(local_bytes=0, occupancy=0.5, registers=64, resident_blocks=2)
    second = config(local_bytes=48, occupancy=0.25, registers=128, shared_bytes=4096, resident_blocks=2)
    assert why_better(first, second) == [
        "Its registers suffice; the second keeps 48 bytes of a thread in local memory.",
        "50 % of the warps find room (64 registers a thread), with the second 25 % (128 registers a thread, 4096 bytes "
        "of shared memory a block).",
    ]
    assert why_better(second, first) == []
    assert why_better(replace(first, local_bytes=16), replace(second, occupancy=0.499)) == []  # both spill, rooms alike


def test_one_config_alone_has_no_second() -> None:
    (best,) = best_configs([config(gflops=3.0), config(gflops=5.0), config(gflops=9.0, status="incorrect")])
    assert (best.measurement.gflops, best.second, best.ratio, best.reasons) == (5.0, None, None, ())


def test_lines_of_a_plot_join_products_of_one_form() -> None:
    """Products with equal operations but different shapes are not joined: the line between them would be vertical."""
    shapes = [(64, 64, 64), (128, 128, 128), (16, 128, 128), (128, 16, 128), (16, 256, 256)]
    points = [made(kernel="naive", m=m, n=n, k=k, gflops=1.0) for m, n, k in shapes]
    (whole,) = curves(points)
    assert len(whole.points) == 5
    forms = {curve.label: len(curve.points) for curve in curves(points, by_form=True)}
    assert forms == {"naive, N×N×N": 2, "naive, 16×N×N": 2, "naive, N×16×N": 1}
    (squares,) = curves(points[:2], by_form=True)
    assert squares.label == "naive"
