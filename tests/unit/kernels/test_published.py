"""The published results agree with themselves, with the catalogue, and with arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kernels.catalog import BY_NAME
from kernels.model.numerics import Problem
from kernels.published import DIRECTORY, PUBLISHED, read
from kernels.published_records import Publication, PublishedRecord
from kernels.strict_json import DataError

# The ladder, whole: results may name a rung before the catalogue has it.
LADDER = {
    "naive_uncoalesced",
    "naive",
    "unrolled",
    "coarsened",
    "shared_tiled",
    "shared_tiled_privatized",
    "shared_tiled_prefetch",
    "register_tiled_rows",
    "register_tiled",
    "vectorized",
    "warp_tiled",
    "pipelined",
    "split_k",
    "tensor_wmma",
    "cublas",
    "cublas_tf32",
    "cublas_bf16",
    "cublas_fp16",
    "cpu_blas",
}
GB_PER_GIB = 2**30 / 1e9
MAY_BE_ZERO = (
    *("compute_capability", "local_bytes", "shared_bytes", "error_vs_float64", "worst_row_error"),
    *("padded", "edge", "promote", "resident", "emulated"),
)
every = pytest.mark.parametrize("publication", PUBLISHED.values(), ids=PUBLISHED)
each_report = pytest.mark.parametrize(
    "publication", [p for p in PUBLISHED.values() if p.report], ids=lambda publication: publication.name
)


def by_report(number: str) -> Publication:
    (found,) = (publication for publication in PUBLISHED.values() if publication.report == number)
    return found


def test_all_five_reports_are_there_and_come_first() -> None:
    reports = [publication.report for publication in PUBLISHED.values()]
    assert reports[:5] == ["000", "001", "002", "003", "004"]
    assert not any(reports[5:])


def test_a_file_must_bear_its_own_name(tmp_path: Path) -> None:
    copy = tmp_path / "another.json"
    copy.write_text((DIRECTORY / "p100_register_blocking.json").read_text())
    with pytest.raises(DataError, match=r"another\.json says that its name is 'p100_register_blocking'"):
        read(copy)


# ---- the catalogue ----
@every
def test_kernels_are_rungs_of_the_ladder(publication: Publication) -> None:
    named = {record.kernel for record in publication.records}
    named |= {intensity.kernel for intensity in publication.intensities}
    named |= {quoted.kernel for quoted in publication.quoted}
    assert named - {None} <= LADDER | BY_NAME.keys()


@every
def test_the_catalogue_takes_the_configs(publication: Publication) -> None:
    for record in publication.records:
        kernel = BY_NAME.get(record.kernel or "")
        if kernel is not None:
            values = {parameter.name: parameter.values for parameter in kernel.parameters}
            refused = {name: value for name, value in record.config.items() if value not in values.get(name, ())}
            assert not refused, (record.label, refused)


@each_report
def test_thread_tiles_fill_the_block(publication: Publication) -> None:
    """Where the source prints the block, its threads times their results are the tile."""
    for record in publication.records:
        config = record.config
        if record.block_x and record.block_y and {"block_m", "thread_m", "thread_n"} <= config.keys():
            assert config["block_m"] == record.block_y * config["thread_m"]
            assert config["block_n"] == record.block_x * config["thread_n"]


# ---- figures ----
def numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number with the name of its field."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from numbers(item, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


@every
def test_figures_are_positive(publication: Publication) -> None:
    given = list(numbers(asdict(publication)))
    assert min(value for name, value in given if name not in MAY_BE_ZERO) > 0
    assert min(value for _, value in given) >= 0


@each_report
def test_a_cell_stands_once(publication: Publication) -> None:
    cells = [
        (record.section, record.label, record.n, record.block_x, record.block_y, tuple(record.config.items()))
        for record in publication.records
    ]
    assert len(cells) == len(set(cells))


@each_report
def test_sizes_are_square(publication: Publication) -> None:
    assert all(record.m == record.n == record.k for record in publication.records)


@every
def test_what_failed_has_a_reason_and_no_figure(publication: Publication) -> None:
    for record in publication.records:
        failed = record.status != "ok"
        assert failed is (record.reason is not None)
        measured = (record.gflops, record.kernel_ms, record.total_ms, record.sm_busy_pct)
        assert failed is (measured == (None,) * 4), record


def rates(record: PublishedRecord) -> tuple[float, float]:
    """The GFLOPS that the printed time allows, in microseconds."""
    assert record.m and record.n and record.k and record.kernel_ms
    flops = Problem(record.m, record.n, record.k, record.dtype or "float32").flops
    return flops / (record.kernel_ms + 0.0005) / 1e6, flops / (record.kernel_ms - 0.0005) / 1e6


def test_speeds_agree_with_times() -> None:
    timed = [r for p in PUBLISHED.values() for r in p.records if r.gflops and r.kernel_ms and r.n and not r.note]
    assert len(timed) >= 43
    for record in timed:
        low, high = rates(record)
        assert record.gflops is not None
        assert low - 0.005 <= record.gflops <= high + 0.005, record


def test_totals_are_the_sum_of_their_parts() -> None:
    split = [r for p in PUBLISHED.values() for r in p.records if r.h2d_ms and r.d2h_ms and r.kernel_ms and r.total_ms]
    assert len(split) >= 2
    for record in split:
        assert record.h2d_ms and record.kernel_ms and record.d2h_ms
        assert record.total_ms == pytest.approx(record.h2d_ms + record.kernel_ms + record.d2h_ms, abs=0.021)


def half_step(figure: float) -> float:
    """What rounding to the digits that are printed may have taken away."""
    return 0.5 * 10.0 ** -len(repr(figure).partition(".")[2])


@every
def test_printed_speed_ups_follow_from_speeds(publication: Publication) -> None:
    for record in publication.records:
        if record.speedup is None or record.note is not None:
            continue
        base = {r.gflops for r in publication.records if r.label == record.speedup_over and r.n == record.n}
        assert len(base) == 1, record
        assert record.gflops is not None
        assert record.gflops / (base.pop() or 0) == pytest.approx(record.speedup, abs=half_step(record.speedup))


@every
def test_repeats_say_what_the_first_says(publication: Publication) -> None:
    for record in publication.records:
        if record.repeats is not None:
            first = [
                (r.gflops, r.total_ms)
                for r in publication.records
                if (r.section, r.kernel, r.n, r.dtype) == (record.repeats, record.kernel, record.n, record.dtype)
                and r.repeats is None
            ]
            if record.gflops is not None:
                assert record.gflops in [gflops for gflops, _ in first], record
            else:
                assert record.total_ms == pytest.approx(first[0][1], abs=0.005), record


def test_two_reports_were_handed_the_same_library_columns() -> None:
    def column(number: str, kernel: str) -> dict[int | None, float | None]:
        return {record.n: record.gflops for record in by_report(number).records if record.kernel == kernel}

    for kernel, shared in (("cpu_blas", 9), ("cublas", 10)):
        here, there = column("000", kernel), column("002", kernel)
        assert len(there) == shared
        assert {n: here[n] for n in there} == there


# ---- rooflines ----
def test_the_peaks_follow_from_the_devices() -> None:
    t4 = by_report("000").device
    assert t4.multiprocessors and t4.fp32_cores_per_multiprocessor and t4.clock_mhz
    cores = t4.multiprocessors * t4.fp32_cores_per_multiprocessor
    assert cores == t4.fp32_cores == 2560
    assert 2 * cores * t4.clock_mhz / 1000 == t4.peak_gflops["float32"] == 7680
    laptop = by_report("003").device
    assert laptop.memory_bus_bits and laptop.memory_clock_mhz
    assert laptop.memory_bus_bits / 8 * 2 * laptop.memory_clock_mhz / 1000 == pytest.approx(
        laptop.memory_gb_s, abs=0.005
    )
    p100 = by_report("004").device
    assert p100.multiprocessors and p100.fp32_cores_per_multiprocessor
    assert p100.multiprocessors * p100.fp32_cores_per_multiprocessor == p100.fp32_cores


def test_the_ridges_follow_from_the_devices() -> None:
    """24 and 34.9 operations a byte, 96 and 140 a word of four bytes; the sustained bandwidth counted in GiB."""
    for number in ("000", "002"):
        report = by_report(number)
        device, (peak, sustained) = report.device, report.rooflines
        assert device.memory_gb_s and device.measured_memory_gb_s
        ridges = [7680 / device.memory_gb_s, 7680 / (device.measured_memory_gb_s / GB_PER_GIB)]
        assert [peak.memory_gb_s, sustained.memory_gb_s] == [320, 220]
        assert [peak.ridge_flop_per_byte, sustained.ridge_flop_per_byte] == pytest.approx(ridges, abs=0.05)
        assert {peak.peak_gflops, sustained.peak_gflops} == {device.peak_gflops["float32"]}
    words = [roof.q_flop_per_word for roof in by_report("000").rooflines]
    assert words == [96, 140] == [round(4 * ridge) for ridge in ridges]


@every
def test_ridges_are_the_quotient_unless_a_note_says_otherwise(publication: Publication) -> None:
    for roof in publication.rooflines:
        if roof.ridge_flop_per_byte is not None and roof.note is None:
            assert roof.ridge_flop_per_byte == pytest.approx(roof.peak_gflops / roof.memory_gb_s, abs=0.05)


def test_intensities_follow_from_the_algorithms() -> None:
    (whole,), (words, halves) = by_report("000").intensities, by_report("002").intensities
    assert whole.flop_per_byte == round(2048 / 6)
    assert whole.flop_per_word == round(4 * 2048 / 6)
    assert words.flop_per_byte == pytest.approx(8192 / (66 * 4), abs=0.005)
    assert halves.flop_per_byte == pytest.approx(8192 / (66 * 2), abs=0.01)
    warp, tile, observed = by_report("003").intensities
    assert warp.flop_per_byte == pytest.approx(16 / (33 + 32 / 8192), abs=5e-6)
    assert tile.flop_per_byte == pytest.approx(8 / (1 + 16 / 8192), abs=5e-5)
    assert observed.flop_per_byte == pytest.approx(1061.90 / 448.06, abs=0.005)


def test_the_memory_hierarchy_narrows_downwards() -> None:
    levels = by_report("004").memory_levels
    assert [level.level for level in levels] == ["registers", "shared memory", "L2 cache", "global memory"]
    for above, below in pairwise(levels):
        assert above.latency_cycles < below.latency_cycles
        assert above.bandwidth_gb_s > below.bandwidth_gb_s
