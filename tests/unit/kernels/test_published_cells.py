"""The published results hold what the reports print: a sample of cells of every table, typed here from the reports."""

from __future__ import annotations

import pytest

from kernels.published import PUBLISHED
from kernels.published_records import PublishedRecord

OF_REPORT = {publication.report: publication for publication in PUBLISHED.values() if publication.report}
Cell = tuple[str, str, str, int | None, str, float]  # report, start of section, part of label, n, field, value

CELLS: list[Cell] = [
    # program output, one listing a version
    ("000", "Q1.c, naive", "naive", 256, "gflops", 56.146768),
    ("000", "Q1.c, naive", "naive", 2048, "gflops", 52.716886),
    ("000", "Q1.c, first", "first tiled implementation", 1024, "gflops", 1046.071570),
    ("000", "Q1.c, first", "first tiled implementation", 2047, "gflops", 954.944297),
    ("000", "Q1.c, power", "power-of-two restricted", 1024, "gflops", 1997.117415),
    ("000", "Q1.c, final", "final optimized version", 1025, "gflops", 3080.305968),
    ("000", "Q1.c, final", "final optimized version", 2047, "gflops", 3700.344693),
    ("000", "Q1.c, block size 32", "block size 32 variant", 2048, "gflops", 1792.927926),
    ("000", "Q1.c, block size 8", "block size 8 variant", 256, "gflops", 341.678777),
    ("000", "Q2.c", "final optimized version", 512, "gflops", 3040.507445),
    # BLAS, cuBLAS and the report's own kernel, side by side
    ("000", "Q4.a", "BLAS", 2047, "gflops", 171),
    ("000", "Q4.a", "BLAS", 4095, "gflops", 209.2),
    ("000", "Q4.a", "CuBLAS", 255, "gflops", 2456.2),
    ("000", "Q4.a", "CuBLAS", 1025, "gflops", 3551.0),
    ("000", "Q4.a", "Optimized Result with block size=16", 650, "gflops", 2546.392696),
    ("000", "Q4.a", "Optimized Result with block size=16", 1600, "gflops", 3923.016312),
    ("000", "Q4.a", "Optimized Result with block size=16", 4096, "gflops", 3015.170254),
    # seven block shapes by seven sizes
    ("002", "Result, thread", "bx=32, by=8, tile 128×128×64", 4096, "gflops", 3664.1),
    ("002", "Result, thread", "bx=32, by=8, tile 96×96×64", 257, "gflops", 811.0),
    ("002", "Result, thread", "bx=16, by=8, tile 128×128×64", 512, "gflops", 1867.0),
    ("002", "Result, thread", "bx=16, by=16, tile 96×96×64", 1024, "gflops", 2976.0),
    ("002", "Result, thread", "bx=16, by=16, tile 64×64×128", 2048, "gflops", 2110.4),
    ("002", "Result, thread", "bx=16, by=16, tile 48×48×128", 256, "gflops", 1411.3),
    ("002", "Result, thread", "bx=32, by=16, tile 128×128×64", 4097, "gflops", 3095.7),
    ("002", "Result, peak", "bx=32, by=8, tile 96×96×64", 512, "gflops", 2866.7),
    ("002", "Comparison with naive", "NAIVE", 1024, "gflops", 135.3),
    ("002", "Comparison with naive", "OUR RESULT", 256, "gflops", 474.5),
    # the profiler's table
    ("002", "Comparison with naive, profiler", "NAIVE", 512, "compute_pct", 13.76),
    ("002", "Comparison with naive, profiler", "NAIVE", 512, "sm_busy_pct", 10.22),
    ("002", "Comparison with naive, profiler", "OUR RESULT", 256, "compute_pct", 8.68),
    ("002", "Comparison with naive, profiler", "OUR RESULT", 2048, "compute_pct", 81.55),
    ("002", "Comparison with naive, profiler", "OUR RESULT", 2048, "sm_busy_pct", 68.46),
    ("002", "Analysis", "BLAS", 2049, "gflops", 175),
    ("002", "Analysis", "CuBLAS", 4096, "gflops", 4501.6),
    ("002", "Analysis", "Your Result", 833, "gflops", 2245.7),
    ("002", "Analysis", "Your Result", 1952, "gflops", 3162.8),
    # copies, kernel, total; float against integer
    ("003", "Part 1, 2.", "MatmulXrow", 8192, "kernel_ms", 7479.20),
    ("003", "Part 1, 2.", "MatmulXrow", 8192, "h2d_ms", 56.48),
    ("003", "Part 1, 2.", "MatmulXrow", 8192, "gflops", 147.01),
    ("003", "Part 1, 2.", "MatmulYrow", 8192, "d2h_ms", 44.38),
    ("003", "Part 1, 2.", "MatmulYrow", 8192, "total_ms", 1135.82),
    ("003", "Part 1, 3.", "MatmulXrow, float", 8192, "total_ms", 7581.428711),
    ("003", "Part 1, 3.", "MatmulXrow, integer", 8192, "total_ms", 7769.88085),
    ("003", "Part 1, 3.", "MatmulYrow, integer", 8192, "total_ms", 1103.91735),
    # the ladder, with speed-ups
    ("003", "Part 1, 4.", "Block Tiling 16×16", 8192, "gflops", 1422.85),
    ("003", "Part 1, 4.", "Block Tiling 32×32", 8192, "speedup", 1.27),
    ("003", "Part 2, 1.", "Improved 1D Block Tiling", 8192, "gflops", 3974.39),
    ("003", "Part 2, 2.", "Improved 2D Block Tiling", 8192, "gflops", 7140.94),
    ("003", "Part 2, 3.", "Vectorized", 8192, "gflops", 8128.81),
    ("003", "Part 2, 4.", "Warp Tiling", 8192, "speedup", 7.11),
    ("003", "Part 3, cuBLAS", "cuBLAS (FP32)", 8192, "gflops", 12431.02),
    ("003", "Part 3, cuBLAS", "cuBLAS, CUBLAS_COMPUTE_32F_FAST_16BF", 8192, "gflops", 30923.96),
    ("003", "Part 3, comparison", "cuBLAS (FP16/BF16)", 8192, "speedup", 3.22),
    ("003", "Tensor core", "TensorCore", 8192, "gflops", 6268.35),
    ("003", "Tensor core", "TensorCore", 8192, "speedup", 4.41),
    # figures by level
    ("004", "Level 1", "shared memory tiling, 16×16", 1024, "gflops", 1732),
    ("004", "Level 1", "shared memory tiling, 16×16", 8192, "gflops", 2020),
    ("004", "Level 2", "shared memory tiling, 16×16", 16384, "gflops", 1342),
    ("004", "Level 2", "larger tiles, 32×32", 16384, "gflops", 2080),
    ("004", "Level 3", "register blocking, 4×4", 1024, "gflops", 4818),
    ("004", "Level 3", "register blocking, 4×4", 16384, "gflops", 6436),
    ("004", "Summary", "Naive GPU", None, "gflops", 150),
]

# 001: version, N, side of the block, milliseconds, GFLOPS
TIMED: list[tuple[str, int, int, float, float]] = [
    ("V1 baseline", 512, 16, 1.062, 252.75),
    ("V1 baseline", 2048, 32, 64.962, 264.46),
    ("V2 loop unrolling", 1024, 16, 13.905, 154.44),
    ("V2 loop unrolling", 2048, 32, 61.388, 279.86),
    ("V3 shared memory tiling", 512, 32, 0.507, 529.57),
    ("V3 shared memory tiling", 2048, 32, 42.425, 404.94),
    ("V4 thread coarsening", 512, 16, 2.824, 95.04),
    ("V4 thread coarsening", 2048, 32, 387.539, 44.33),
    ("V5 privatization, register tile 4", 1024, 32, 18.299, 117.35),
    ("V5 privatization, register tile 2", 512, 16, 1.187, 226.15),
    ("V5 privatization, register tile 2", 2048, 32, 52.309, 328.43),
    ("V6 final optimized kernel", 1024, 32, 3.609, 595.11),
    ("V6 final optimized kernel", 2048, 16, 34.344, 500.23),
]


def records(report: str, label: str, n: int | None) -> list[PublishedRecord]:
    return [record for record in OF_REPORT[report].records if (record.label, record.n) == (label, n)]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(map(str, cell[:5])))
def test_a_cell_holds_what_the_report_prints(cell: Cell) -> None:
    report, section, label, n, field, value = cell
    values = [getattr(record, field) for record in records(report, label, n) if record.section.startswith(section)]
    assert [value for value in values if value is not None] == [value]


@pytest.mark.parametrize("row", TIMED, ids=lambda row: "-".join(map(str, row[:3])))
def test_a_row_holds_time_and_speed(row: tuple[str, int, int, float, float]) -> None:
    label, n, block, kernel_ms, gflops = row
    (record,) = (record for record in records("001", label, n) if record.block_x == block)
    assert (record.block_y, record.kernel_ms, record.gflops) == (block, kernel_ms, gflops)


def test_the_sizes_that_failed() -> None:
    failed = [(r.label, r.n, r.status) for p in PUBLISHED.values() for r in p.records if p.report and r.status != "ok"]
    assert failed == [("power-of-two restricted", n, "incorrect") for n in (1025, 2047)]


@pytest.mark.parametrize(("report", "count"), [("000", 88), ("001", 42), ("002", 112), ("003", 22), ("004", 11)])
def test_no_table_is_left_out(report: str, count: int) -> None:
    """Cells with a figure, and failures, of every table."""
    assert len(OF_REPORT[report].records) == count


@pytest.mark.parametrize(
    ("report", "name", "title"),
    [
        ("000", "t4_register_tile_2025", "CSE260: HW2 Report"),
        ("001", "unnamed_gpu_six_versions", None),
        ("002", "t4_tile_configurations", None),
        ("003", "rtx3070_laptop_tiling_ladder", "CUDA Matrix Multiplication Lab Report"),
        ("004", "p100_register_blocking", "CUDA Matrix Multiplication - Optimization Guide"),
    ],
)
def test_names_and_titles(report: str, name: str, title: str | None) -> None:
    publication = OF_REPORT[report]
    assert (publication.name, publication.citation.title) == (name, title)


def test_authors_are_those_that_the_reports_name() -> None:
    named = {report: publication.citation.authors for report, publication in OF_REPORT.items()}
    assert named == {
        "000": ("Abhinandan Sharma", "Vaibhav Jain"),
        "001": ("Hui Ma",),
        "002": (),
        "003": (),
        "004": (),
    }


@pytest.mark.parametrize(
    ("report", "figures"),
    [
        ("000", {"multiprocessors": 40, "fp32_cores_per_multiprocessor": 64, "clock_mhz": 1500, "memory_gb_s": 320}),
        ("001", {"multiprocessors": 14, "registers_per_block": 65536, "max_threads_per_multiprocessor": 2048}),
        ("001", {"name": None, "memory_bytes": 8106 << 20, "shared_bytes_per_block": 48 << 10, "memory_gb_s": None}),
        ("002", {"multiprocessors": 40, "clock_mhz": 1500, "l2_bytes": None}),
        ("003", {"compute_capability": (8, 6), "l2_bytes": 4096 << 10, "memory_bus_bits": 256, "warp_size": 32}),
        ("003", {"memory_clock_mhz": 7001, "memory_gb_s": 448.06, "max_grid": (2147483647, 65535, 65535)}),
        ("003", {"shared_bytes_per_multiprocessor": 100 << 10, "max_warps_per_multiprocessor": 48, "clock_mhz": None}),
        ("004", {"fp32_cores": 3584, "multiprocessors": 56, "memory_gb_s": 732, "peak_gflops": {"float32": 9300}}),
    ],
)
def test_devices_are_as_the_reports_describe_them(report: str, figures: dict[str, object]) -> None:
    device = OF_REPORT[report].device
    assert {name: getattr(device, name) for name in figures} == figures


def test_rooflines_are_as_the_reports_draw_them() -> None:
    def roofs(report: str) -> list[tuple[float, float, float | None]]:
        return [(r.peak_gflops, r.memory_gb_s, r.ridge_flop_per_byte) for r in OF_REPORT[report].rooflines]

    t4 = [(7680, 320, 24), (7680, 220, 34.9)]
    assert (roofs("000"), roofs("002")) == (t4, t4)
    assert roofs("003") == [(16600, 448.06, 34.5)]
    assert roofs("004") == [(9300, 732, None)]
    assert [point.flop_per_byte for point in OF_REPORT["002"].intensities] == [31.03, 62.06]
    assert [point.flop_per_byte for point in OF_REPORT["003"].intensities] == [0.48479, 7.9844, 2.37]


def test_the_memory_table() -> None:
    table = [(level.size_bytes, level.latency_cycles, level.bandwidth_gb_s) for level in OF_REPORT["004"].memory_levels]
    assert table == [(256 << 10, 1, 20e3), (64 << 10, 5, 15e3), (4 << 20, 200, 4e3), (16 << 30, 400, 732)]


@pytest.mark.parametrize(
    ("report", "unit", "values"),
    [
        ("000", "times", [30, 70]),
        ("001", "GFLOPS", [500, 186, 328, 600, 500]),
        ("002", "blocks", [36, 64, 1024, 1089, 4, 1]),
        ("003", "percent", [5, 34, 100, 66, 193, 428, 501, 611, 819, 2187, 29, 222, 50]),
        ("004", "percent", [69.2, 10, 5, 5, 10, 1, 69]),
    ],
)
def test_figures_in_the_prose(report: str, unit: str, values: list[float]) -> None:
    assert [quoted.value for quoted in OF_REPORT[report].quoted if quoted.unit == unit] == values
