"""Published tables and recorded runs become measurements that say what the source says, and no more."""

from __future__ import annotations

import pytest

from analysis.measurement import Device, Interval, row_alignment
from analysis.sources import recorded_device
from kernels.published import PUBLISHED
from tests.support.recorded import h200, made, report, timed


def test_repetitions_and_records_without_a_size_are_left_out() -> None:
    (guide,) = (one for one in PUBLISHED.values() if one.report == "004")
    assert len(guide.records) == 11
    assert [(one.label, one.n) for one in report("004")] == [
        ("shared memory tiling, 16×16", 1024),
        ("shared memory tiling, 16×16", 8192),
        ("shared memory tiling, 16×16", 16384),
        ("larger tiles, 32×32", 16384),
        ("register blocking, 4×4", 1024),
        ("register blocking, 4×4", 16384),
    ]


def test_time_and_speed_follow_from_each_other() -> None:
    (warp_tiling,) = (one for one in report("003") if one.kernel == "warp_tiled")
    assert warp_tiling.kernel_ms == pytest.approx(2 * 8192**3 / 9611.87 / 1e6, rel=1e-4)
    assert all(one.gflops for one in report("001"))


def test_what_a_report_does_not_print_stays_unknown() -> None:
    (integers,) = (one for one in report("003") if one.label == "MatmulYrow, integer")
    assert (integers.gflops, integers.kernel_ms, integers.registers, integers.interval_ms) == (None, None, None, None)
    assert report("001")[0].device.name is None


def test_a_cpu_column_is_not_measured_on_the_gpu() -> None:
    devices = {one.device.device_class: one.device.name for one in report("000")}
    assert devices == {"gpu": "NVIDIA T4", "cpu": None}


def test_failures_keep_their_status() -> None:
    assert [(one.n, one.gflops) for one in report("000") if one.status == "incorrect"] == [(1025, None), (2047, None)]


def test_accuracy_is_the_catalogues() -> None:
    classes = {one.kernel: one.accuracy for one in report("003") if one.n == 8192 and one.dtype != "int32"}
    assert (classes["cublas"], classes["cublas_bf16"], classes["tensor_wmma"]) == ("fp32", "bf16", "tf32")


def test_rows_of_the_reports_follow_each_other() -> None:
    alignments = {one.n: one.row_alignment_bytes for one in report("000")}
    assert [alignments[n] for n in (1024, 1025, 650, 1500)] == [16, 4, 8, 16]


def test_a_recorded_run() -> None:
    (one,) = (one for one in h200() if one.kernel == "pipelined" and one.n == 4097)
    assert (one.device.name, one.device.multiprocessors, one.device.l2_bytes) == ("NVIDIA H200", 132, 62914560)
    assert (one.registers, one.occupancy, one.cache, one.row_alignment_bytes) == (245, 0.125, "cold", 16)
    assert one.interval_ms is not None and one.kernel_ms is not None
    assert one.interval_ms.lo <= one.kernel_ms <= one.interval_ms.hi
    assert one.gflops == pytest.approx(one.problem.flops / one.kernel_ms / 1e6)


def test_the_interval_ends_at_the_third_quartile_where_it_is_known() -> None:
    assert timed(1.0, 1.1, 1.2, slowest_ms=9.0).interval_ms == Interval(1.0, 1.2)
    assert timed(1.0, 1.1, None, slowest_ms=9.0).interval_ms == Interval(1.0, 9.0)
    speeds = timed(1.0, 1.1, 2.0).gflops_interval
    assert speeds is not None and speeds.hi == pytest.approx(2 * speeds.lo)


def test_size_of_a_rectangle_is_that_of_a_square_of_as_many_operations() -> None:
    assert made(m=512, k=2048).size == pytest.approx(1024)


@pytest.mark.parametrize(("row_bytes", "alignment"), [(4096, 16), (4100, 4), (4104, 8), (4112, 16), (2050, 2), (0, 16)])
def test_alignment_of_rows(row_bytes: int, alignment: int) -> None:
    assert row_alignment(row_bytes) == alignment


def test_what_is_not_of_its_kind_is_not_known_of_a_device() -> None:
    """A record of another version, or a damaged one: its figures are still shown."""
    odd = {"name": 7, "uuid": {}, "device_class": "tpu", "compute_capability": "9.0", "multiprocessors": "many"}
    odd |= {"cores": -1, "max_clock_mhz": [], "l2_bytes": True, "theoretical": "fast", "measured": {"gflops": 3}}
    assert recorded_device(odd) == recorded_device({}) == Device()
    partly = recorded_device({"theoretical": {"gflops": {"float32": 5.0, "float64": "x"}, "memory_gb_s": "y"}})
    assert partly.theoretical.gflops == {"float32": 5.0} and partly.theoretical.memory_gb_s is None
