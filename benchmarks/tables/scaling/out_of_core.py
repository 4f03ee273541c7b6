"""The section of docs/scaling.md on recorded products that are larger than a GPU's memory, on one GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.recorded import files, read
from benchmarks.tables.service.bounds import Bound
from benchmarks.tables.where import where
from tools.markdown import table

GIB = 1 << 30
BUS_BYTES_PER_S = 50e9  # of PCIe 5, as measured for uploads from page-locked memory
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
    "share of in core",
    "must",
    "aim",
    "",
)
BOUNDS = {  # shares of the in-core rate, by element type and N
    ("float32", 90_000): Bound(0.9, 0.97, 1, more_is_better=True),
    ("bfloat16", 90_000): Bound(0.8, 0.95, more_is_better=True),  # with 24 GiB allowed
}
ITEMSIZE = {"float32": 12, "float64": 24, "bfloat16": 6, "float16": 6, "int8": 6}  # of all three matrices


def out_of_core(results: Path) -> Iterator[str]:
    """A part for each record."""
    for path in files(results, "*_out_of_core"):
        record = read(path)
        yield f"{record['device']}. {where(record)}" if "environment" in record else f"{record['device']}."
        yield table(COLUMNS, [_row(row) for row in record["rows"]]).rstrip()


def progress_of_tiles(results: Path) -> Iterator[str]:
    """The estimate in a job's record before the first recorded product begins."""
    for row in _tiled_rows(results)[:1]:
        tiles = f"{row['tiles']} tiles of {row['tile_rows']}×{row['tile_columns']}"
        said = f"{row['kernel']} in {tiles} on one GPU, about {row['estimate_s']:.1f} s"
        eta_s = f"{row['estimate_s']:.1f}"
        yield f'```\n"progress": {{"done": 0, "total": {row["tiles"]}, "current": "{said}", "eta_s": {eta_s}}}\n```'


def tile_rows(results: Path) -> Iterator[str]:
    """The number of rows that hides the bus, by the recorded in-core rates."""
    found = [
        f"{rounded(ITEMSIZE[row['dtype']] / 3 * row['in_core_tflops'] * 1e12 / (2 * BUS_BYTES_PER_S)):,} for "
        f"{row['dtype']} by `{row['kernel']}` at {row['in_core_tflops']:.0f}"
        for row in _tiled_rows(results)
    ]
    if found:
        at = f"Rows at B = {BUS_BYTES_PER_S / 1e9:g} GB/s and the TFLOPS of P that are recorded below"
        yield f"{at}: {'; '.join(found)}."


def rounded(rows: float) -> int:
    return round(rows / 100) * 100


def _tiled_rows(results: Path) -> list[dict[str, Any]]:
    paths = files(results, "*_out_of_core")
    return [row for path in paths[-1:] for row in read(path)["rows"] if "tiles" in row]


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    """cuBLASXt does not say how it divides a product, and checks nothing."""
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
        *_judged(row),
    )


def _judged(row: Mapping[str, Any]) -> tuple[str, str, str]:
    bound = BOUNDS.get((row["dtype"], row["n"])) if "tiles" in row else None
    return (*bound.cells[:2], bound.verdict(row["of_in_core"])) if bound else ("", "", "")
