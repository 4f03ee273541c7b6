"""The text that the docs contain about measured symmetric products."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.tables.interleaved.symmetric import symmetric

BF16 = {"triangle 128x1": 0.1, "triangle 256x2": 0.12, "whole": 0.18, "cublas": 0.175}
FP64 = {"triangle 128": 1.2, "whole": 2.3, "cublas": 2.4, "syrk": 1.8}
ROWS = [
    {"kernel": "hopper_bf16", "n": 4096, "gflops": 687_000.0, "of_library": 1.75, "ms": BF16},
    {"kernel": "tensor_fp64", "n": 4096, "gflops": 57_000.0, "of_library": 2.0, "ms": FP64},
]


def test_each_way_beside_the_others(tmp_path: Path) -> None:
    record = {"device": "NVIDIA H200", "environment": {"recorded_at": "2026-11-26T21:00:00+00:00"}, "rows": ROWS}
    path = tmp_path / "h200_symmetric.json"
    path.write_text(json.dumps(record))
    head, about, table = symmetric(path)
    assert head == "## Symmetric products, on an NVIDIA H200" and "2026-11-26" in about and "n·(n+1)·k" in about
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert cells == [
        ["`hopper_bf16`", "4,096", "687,000", "0.100", "0.180", "0.175", "", "1.75", ""],
        ["`tensor_fp64`", "4,096", "57,000", "1.200", "2.300", "2.400", "1.800", "2.00", "1.50"],
    ]
