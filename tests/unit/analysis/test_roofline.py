"""Roofs, intensities and points: the reports' own figures come out, and no point stands above both roofs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measurement import Device
from analysis.roofline import (
    Roofs,
    measured_roofs,
    moved_bytes,
    point,
    theoretical_gb_s,
    theoretical_gflops,
    theoretical_roofs,
    units_of,
)
from jobs.fleet.workers import Ceilings
from kernels.published import PUBLISHED
from tests.support.recorded import h200, labelled, made, report

positive = st.floats(1e-3, 1e9)


def test_peak_of_a_t4() -> None:
    t4 = replace(report("000")[0].device, theoretical=Ceilings())
    assert (t4.multiprocessors, t4.cores, t4.clock_mhz) == (40, 40 * 64, 1500)
    assert theoretical_roofs(t4).gflops == theoretical_gflops(40 * 64, 1500) == 7680


@pytest.mark.parametrize(("memory_gb_s", "ridge", "q"), [(320, 24, 96), (220, 34.9, 140)])
def test_ridge_and_q_of_a_t4(memory_gb_s: float, ridge: float, q: int) -> None:
    roofs = Roofs("theoretical", theoretical_gflops(40 * 64, 1500), memory_gb_s)
    assert roofs.ridge is not None and round(roofs.ridge, 1) == ridge
    words = roofs.ops_per_word()
    assert words is not None and round(words) == q


def test_ridges_are_those_that_the_reports_compute() -> None:
    printed = [r for p in PUBLISHED.values() if p.report in ("000", "002") for r in p.rooflines]
    assert len(printed) == 4
    for roof in printed:
        ridge = Roofs("theoretical", roof.peak_gflops, roof.memory_gb_s).ridge
        assert ridge is not None and round(ridge, 1) == roof.ridge_flop_per_byte


def test_bandwidth_from_bus_and_clock() -> None:
    laptop = report("003")[0].device
    assert laptop.theoretical.memory_gb_s == 448.06
    assert theoretical_roofs(replace(laptop, theoretical=Ceilings())).memory_gb_s == pytest.approx(448.06, abs=0.01)


def test_share_of_a_p100s_peak() -> None:
    best = labelled(report("004"), "register blocking, 4×4").points[-1]
    peak_gflops = theoretical_roofs(best.device).gflops
    assert best.gflops == 6436 and peak_gflops is not None
    assert round(100 * best.gflops / peak_gflops, 1) == 69.2


def test_unknown_is_none() -> None:
    assert (theoretical_gflops(None, 1500), theoretical_gflops(2560, None), theoretical_gb_s(None, 5001)) == (None,) * 3
    roofs = theoretical_roofs(report("001")[0].device)
    assert (roofs.gflops, roofs.memory_gb_s, roofs.ridge, roofs.ops_per_word()) == (None, None, None, None)
    assert (roofs.attainable(24), roofs.limit(24)) == (None, None)
    assert measured_roofs(Device()).gflops is None
    assert theoretical_roofs(Device(cores=2560, clock_mhz=1500), "float64").gflops is None
    assert theoretical_roofs(Device(device_class="cpu", cores=16, clock_mhz=3000)).gflops is None
    assert point(made(), roofs) is None


def test_compulsory_intensity_is_a_sixth_of_n() -> None:
    (printed,) = (one for p in PUBLISHED.values() if p.report == "000" for one in p.intensities)
    at = point(made(2048, gflops=3719.64), Roofs("theoretical", 7680, 320))
    assert at is not None and at.intensity == pytest.approx(2048 / 6)
    assert (round(at.intensity), round(4 * at.intensity)) == (printed.flop_per_byte, printed.flop_per_word)
    assert (at.attainable, at.limit) == (7680, "compute")


def test_tile_intensity_is_what_report_003_prints_for_its_tile() -> None:
    (tiled,) = (one for one in report("003") if one.label == "Block Tiling 32×32")
    moved = moved_bytes(tiled, "tile")
    assert moved is not None and tiled.problem.flops / moved == pytest.approx(7.9844, abs=5e-5)


@pytest.mark.parametrize(
    ("kernel", "config", "intensity"),
    [
        ("naive", {"block_m": 8, "block_n": 32}, 0.25),
        ("naive_uncoalesced", {"block_m": 32, "block_n": 8}, 0.25),
        ("coarsened", {"block_m": 8, "block_n": 128, "factor": 4, "strided": 1}, 0.4),
        ("shared_tiled", {"tile": 16}, 4),
        ("register_tiled", {"block_m": 64, "block_n": 64, "thread_m": 4, "thread_n": 4}, 16),
    ],
)
def test_tile_intensity_is_a_quarter_of_the_tile(kernel: str, config: dict[str, int], intensity: float) -> None:
    """2·m·n / (m + n) operations a word, here of 4 bytes; the product's own bytes are few."""
    one = made(8192, kernel=kernel, config=config)
    moved = moved_bytes(one, "tile")
    assert moved is not None and one.problem.flops / moved == pytest.approx(intensity, rel=0.01)


def test_measured_bytes_are_the_counters() -> None:
    assert moved_bytes(made(), "measured") is None
    at = point(made(gflops=100.0, dram_bytes=2 * 1024**3 / 5), Roofs("measured", 7680, 220), "measured")
    assert at is not None and at.limit == "memory"
    assert (at.intensity, at.attainable) == pytest.approx((5, 1100))


def test_no_kernel_of_the_recorded_run_is_implausible() -> None:
    points = [point(one, theoretical_roofs(one.device, units_of(one))) for one in h200()]
    assert len(points) == 36 and not [at for at in points if at is None or at.implausible]


def test_a_point_above_a_roof_is_said_to_be() -> None:
    roofs = Roofs("theoretical", 7680, 320)
    above = point(made(gflops=7900.0), roofs)
    assert above is not None and above.implausible == "7900 GFLOPS are above the theoretical peak of 7680."
    assert (tolerated := point(made(gflops=7800.0), roofs)) is not None and tolerated.implausible is None
    measured = point(made(gflops=7900.0), Roofs("measured", 7680, 220))
    assert measured is not None and measured.implausible is None


@pytest.mark.parametrize(("cache", "implausible"), [("cold", True), ("warm", False), (None, False)])
def test_compulsory_bytes_bound_a_cold_cache_alone(cache: str | None, implausible: bool) -> None:
    at = point(made(64, gflops=5000.0, cache=cache), Roofs("theoretical", 7680, 320))
    assert at is not None and at.limit == "memory" and bool(at.implausible) is implausible


@pytest.mark.parametrize(
    ("dtype", "accuracy", "units"),
    [
        ("float32", "fp32", "float32"),
        ("float32", "bf16", "bfloat16"),
        ("float32", "tf32", None),
        ("float32", None, None),
        ("float16", "tf32", "float16"),
        ("float64", "fp64", "float64"),
        ("int8", "exact", "int8"),
    ],
)
def test_whose_peak_bounds_it(dtype: str, accuracy: str | None, units: str | None) -> None:
    assert units_of(made(dtype=dtype, accuracy=accuracy)) == units


def test_a_product_of_several_int8_products_is_under_no_float32_roof() -> None:
    assert units_of(made(dtype="float32", accuracy="fp32", kernel="fp32_emulated")) is None


@given(positive, positive, positive)
def test_attainable_is_under_both_roofs_and_on_one(gflops: float, memory_gb_s: float, intensity: float) -> None:
    roofs = Roofs("theoretical", gflops, memory_gb_s)
    attainable = roofs.attainable(intensity)
    assert attainable is not None and attainable in (gflops, intensity * memory_gb_s)
    assert attainable <= gflops and attainable <= intensity * memory_gb_s


@given(positive, positive, positive, st.floats(1, 1e3))
def test_attainable_never_falls_with_intensity(gflops: float, memory: float, intensity: float, more: float) -> None:
    roofs = Roofs("theoretical", gflops, memory)
    assert (roofs.attainable(intensity * more) or 0) >= (roofs.attainable(intensity) or 0)


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300), st.sampled_from([1, 3]))
def test_a_tile_moves_no_less_than_must_be_moved(m: int, n: int, k: int, batch: int) -> None:
    one = made(m=m, n=n, k=k, batch=batch, kernel="shared_tiled", config={"tile": 16})
    tile, least = moved_bytes(one, "tile"), moved_bytes(one, "compulsory")
    assert tile is not None and least is not None and tile >= least
