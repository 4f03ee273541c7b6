"""What the docs say of measured deep products with few tiles."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.measure.interleaved.cut import SHAPES
from benchmarks.tables.interleaved.cut import cut

MS = {"cut": 0.02, "whole": 0.05, "cublas": 0.04, "cublas_tuned": 0.015}
ROW = {"kernel": "hopper_bf16", "m": 300, "n": 3000, "k": 10_000, "samples": 15, "ms": MS}


def test_the_gain_is_over_the_same_kernel_and_the_ratio_over_the_faster_of_the_library_s_ways(tmp_path: Path) -> None:
    about = {"device": "NVIDIA H100", "environment": {"recorded_at": "2026-11-27T10:12:00+00:00"}}
    path = tmp_path / "h100_cut.json"
    path.write_text(json.dumps(about | {"rows": [ROW]}))
    head, told, table = cut(path)
    assert head == "## Deep products with few tiles, on an NVIDIA H100" and "2026-11-27" in told
    (cells,) = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert cells == ["`hopper_bf16`", "300 × 3,000", "10,000", "20.0", "50.0", "2.50", "40.0", "15.0", "0.75"]


def test_no_shape_is_measured_twice() -> None:
    assert len(SHAPES) == len(set(SHAPES))
