"""What the docs say of measured deep products."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.measure.interleaved.deep import KERNELS, LIBRARY, SHAPES
from benchmarks.tables.interleaved.deep import WAYS, deep
from kernels.catalog import BY_NAME

ROW = {
    "kernel": "hopper_bf16",
    "dtype": "bfloat16",
    "m": 1000,
    "n": 2000,
    "k": 10_000,
    "ms": {"in_step": 0.05, "apart": 0.1, "cublas": 0.08, "cublas_tuned": 0.04},
}


def test_the_gain_is_over_the_same_kernel_and_the_ratio_over_the_faster_of_the_library_s_ways(tmp_path: Path) -> None:
    record = {"device": "NVIDIA H100", "environment": {"recorded_at": "2026-11-27T03:58:00+00:00"}, "rows": [ROW]}
    path = tmp_path / "h100_deep.json"
    path.write_text(json.dumps(record))
    head, about, table = deep(path)
    assert head == "## Deep products, on an NVIDIA H100" and "2026-11-27" in about
    cells = [cell.strip() for cell in table.splitlines()[2].strip("|").split("|")]
    assert cells == ["`hopper_bf16`", "1,000 × 2,000", "10,000", "800", "400", "2.00", "500", "1,000", "0.80"]


def test_what_is_measured_is_known_to_the_catalogue_and_the_table() -> None:
    assert set(LIBRARY) < set(WAYS) and len(SHAPES) == len(set(SHAPES))
    for kernel, dtype in KERNELS:
        assert all(dtype in BY_NAME[name].dtypes for name in (kernel, *LIBRARY))
