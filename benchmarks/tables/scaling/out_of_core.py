"""What docs/scaling.md says of recorded products that are larger than a GPU, on one GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.tables.where import where
from tools.markdown import table

GIB = 1 << 30
COLUMNS = (
    "type",
    "kernel",
    "N",
    "matrices, GB",
    "allowed, GiB",
    "tiles",
    "expected, s",
    "product, s",
    "compared, s",
    "TFLOPS",
    "in core",
    "of that",
)
ITEMSIZE = {"float32": 12, "float64": 24, "bfloat16": 6, "float16": 6, "int8": 6}  # of all three matrices


def out_of_core(results: Path) -> Iterator[str]:
    """A part for each record."""
    for path in sorted(results.glob("*_out_of_core.json")):
        record = json.loads(path.read_bytes())
        yield f"{record['device']}. {where(record)}" if "environment" in record else f"{record['device']}."
        yield table(COLUMNS, [_row(row) for row in record["rows"]]).rstrip()


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    """cuBLASXt says nothing of how it cuts, and checks nothing."""
    n, dtype = row["n"], row["dtype"]
    tiles = (
        f"{row['tiles']} of {row['tile_rows']}×{row['tile_columns']}" if "tiles" in row else f"of {row['tile_rows']}"
    )
    return (
        dtype,
        f"`{row['kernel']}`" if "tiles" in row else "cuBLASXt",
        f"{n}",
        f"{ITEMSIZE[dtype] * n * n / 1e9:.1f}",
        f"{row['allowed_bytes'] / GIB:.0f}" if row.get("allowed_bytes") else "",
        tiles,
        f"{row['estimate_s']:.2f}" if "estimate_s" in row else "",
        f"{row['product_s']:.2f}",
        f"{row['compared_s']:.2f}" if "compared_s" in row else "",
        f"{row['tflops']:.1f}",
        f"{row['in_core_tflops']:.1f}" if "in_core_tflops" in row else "",
        f"{row['of_in_core']:.2f}",
    )
