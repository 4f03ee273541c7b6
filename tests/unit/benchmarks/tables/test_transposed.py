"""What the docs say of measured products with B transposed beforehand."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.measure.interleaved.transposed import KERNELS
from benchmarks.tables.interleaved.transposed import transposed
from kernels.catalog import BY_NAME

INT8 = {
    "kernel": "hopper_int8",
    "dtype": "int8",
    "n": 1000,
    "transposed": {"hopper_int8": 0.01, "cublas": 0.02, "cublas_tuned": 0.008},
    "lying": {"hopper_int8": 0.02, "cublas": 0.04, "cublas_tuned": 0.05},
}
FP8 = {
    "kernel": "hopper_fp8",
    "dtype": "float8_e4m3",
    "n": 1000,
    "transposed": {"hopper_fp8": 0.01, "cublas": 0.02},
    "lying": {"hopper_fp8": 0.02, "cublas": 0.01},
}


def test_ours_is_held_against_the_faster_of_the_librarys_ways_in_either_layout(tmp_path: Path) -> None:
    record = {"device": "NVIDIA H200", "environment": {"recorded_at": "2026-11-26T21:00:00+00:00"}, "rows": [INT8, FP8]}
    path = tmp_path / "h200_transposed.json"
    path.write_text(json.dumps(record))
    head, about, table = transposed(path)
    assert head == "## B transposed beforehand, on an NVIDIA H200" and "2026-11-26" in about
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert cells == [
        ["int8", "1,000", "`hopper_int8`", "200", "100", "250", "0.80", "100", "50", "2.00"],
        ["float8_e4m3", "1,000", "`hopper_fp8`", "200", "100", "", "2.00", "100", "200", "0.50"],
    ]


def test_every_kernel_and_library_that_is_measured_takes_the_type() -> None:
    for kernel, dtype, libraries in KERNELS:
        assert all(dtype in BY_NAME[name].dtypes for name in (kernel, *libraries))
