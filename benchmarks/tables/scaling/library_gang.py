"""The section of docs/scaling.md on recorded products by NVIDIA's libraries on several GPUs of one host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.recorded import files, read
from benchmarks.tables.service.bounds import Bound
from benchmarks.tables.where import where
from tools.markdown import table

MUST = {"float32": 1.85, "float16": 1.7, "float64": 1.8}  # required speed-up by two GPUs over one, N = 16,384


def library_gang(results: Path) -> Iterator[str]:
    """A part for each record."""
    for path in files(results, "*_library_gang"):
        record = read(path)
        versions = ", ".join(f"{name} {record['versions'].get(name, '?')}" for name in ("cublasmp", "nccl"))
        yield f"{record['gpus']} × {record['device']}, {versions}. {where(record)}"
        yield "Each GPU has its part of the matrices; the library's call alone, beside cuBLAS on one GPU:"
        rows = [row for row in record["rows"] if row["what"] == "resident"]
        columns = ("type", "N", "one GPU, TFLOPS", f"{record['gpus']} GPUs, TFLOPS", "times", "must", "")
        found = [
            (
                row["dtype"],
                f"{row['n']}",
                f"{row['one_tflops']:.1f}",
                f"{row['several_tflops']:.1f}",
                f"{row['speedup']:.2f}",
                *_judged(row["dtype"], row["speedup"]),
            )
            for row in rows
        ]
        yield table(columns, found).rstrip()
        yield "As jobs, from and to page-locked memory of the host, on all of them, checked; `cublas` in tiles:"
        rows = [row for row in record["rows"] if row["what"] == "from host"]
        columns = ("type", "kernel", "N", "expected, s", "library or kernels, s", "checked product, s", "TFLOPS")
        jobs = [
            (
                row["dtype"],
                f"`{row['kernel']}`",
                f"{row['n']}",
                *(f"{row[name]:.3f}" for name in ("estimate_s", "kernel_s", "product_s")),
                f"{row['tflops']:.1f}",
            )
            for row in rows
        ]
        yield table(columns, jobs).rstrip()


def _judged(dtype: str, speedup: float) -> tuple[str, str]:
    """Empty if there is no target."""
    if dtype not in MUST:
        return "", ""
    bound = Bound(MUST[dtype], more_is_better=True)
    return bound.cells[0], bound.verdict(speedup)
