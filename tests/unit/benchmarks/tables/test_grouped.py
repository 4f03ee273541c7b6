"""The text that docs/performance.md contains about grouped products."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.tables.interleaved.grouped import grouped


def test_a_row_has_our_config_and_both_of_the_librarys_ways(tmp_path: Path) -> None:
    ms = {
        "hopper_bf16 128x256x2": 0.5,
        "hopper_bf16 128x128x1": 0.4,
        "cublas": 0.6,
        "cublasGemmGroupedBatchedEx": 0.55,
    }
    row = {"dtype": "bfloat16", "groups": 8, "rows": 1977, "n": 14336, "k": 4096, "transposed": True, "gflops": 466060}
    record = {
        "device": "NVIDIA H100",
        "environment": {"recorded_at": "2026-11-26"},
        "rows": [row | {"of_library": 1.1, "ms": ms}],
    }
    path = tmp_path / "h100_grouped.json"
    path.write_text(json.dumps(record))
    title, _, table = grouped(path)
    assert title == "## Grouped products, on an NVIDIA H100"
    cells = [cell.strip() for cell in table.splitlines()[-1].strip("|").split("|")]
    assert cells[:6] == ["bfloat16", "8", "1,977", "14,336", "4,096", "along k"]
    assert cells[6:] == ["`hopper_bf16`", "466.1", "0.500", "0.400", "0.600", "0.550", "1.10"]
