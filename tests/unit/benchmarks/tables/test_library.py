"""The text that docs/performance.md contains about cuBLAS at its best."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.tables.interleaved.library import library


def test_the_library_at_its_best_is_told_by_useful_operations(tmp_path: Path) -> None:
    rows = [
        {
            "kernel": "cublas",
            "dtype": "bfloat16",
            "n": 1000,
            "as_it_lies": {"default_ms": 2.0, "tuned_ms": 1.0},
            "padded": {"default_ms": 0.5, "tuned_ms": 0.25},
        },
        {"kernel": "cublas", "dtype": "bfloat16", "n": 1024, "as_it_lies": {"default_ms": 1.0, "tuned_ms": 1.0}},
    ]
    path = tmp_path / "some_library.json"
    path.write_text(json.dumps({"environment": {"recorded_at": "now"}, "device": "GPU", "rows": rows}))
    told = "\n".join(library(path))
    assert "| `cublas` | bfloat16 | 1000 | 1.0 | 2.0 | 4.0 | 8.0 |" in told
    assert "| `cublas` | bfloat16 | 1024 | 2.1 | 2.1 |  |  |" in told
