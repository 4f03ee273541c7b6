"""The section of docs/scaling.md on recorded products on two GPUs of one host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.recorded import files, read
from benchmarks.tables.service.bounds import Bound
from benchmarks.tables.where import where
from tools.markdown import table

JUDGED = ("must", "aim", "")
BOUNDS = {  # speed-up over one GPU; by kind of run, element type, whether it is fp32_emulated, and N
    ("resident", "float32", False, 16_384): Bound(1.9, 1.97, 2, more_is_better=True),
    ("resident", "float64", False, 16_384): Bound(1.9, 1.97, 2, more_is_better=True),
    ("resident", "bfloat16", False, 32_768): Bound(1.85, 1.97, 2, more_is_better=True),
    ("resident", "float32", True, 16_384): Bound(1.8, 1.95, more_is_better=True),
    ("from host", "float32", False, 32_768): Bound(1.8, 1.95, more_is_better=True),
}
ENDED_S = Bound(10, 3)  # after the end of its lease


def multi_gpu(results: Path) -> Iterator[str]:
    """A part for each record, and for each on faults of gangs."""
    for path in files(results, "*_multi_gpu"):
        record = read(path)
        yield f"{record['gpus']} × {record['device']}. {where(record)}"
        rows = {what: [row for row in record["rows"] if row["what"] == what] for what in _SECTIONS}
        for what, section in _SECTIONS.items():
            if rows[what]:
                yield from section(rows[what])
    for path in files(results, "*_gang_faults"):
        yield from _ended(read(path))


def _resident(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "Operands on the GPUs, each with its rows of A and all of B; kernels alone:"
    found = [
        (
            row["dtype"],
            f"`{row['kernel']}`",
            f"{row['n']}",
            f"{row['one_tflops']:.1f}",
            f"{row['two_tflops']:.1f}",
            f"{row['speedup']:.2f}",
            *_judged("resident", row["dtype"], row["kernel"], row["n"], row["speedup"]),
        )
        for row in rows
    ]
    columns = ("type", "kernel", "N", "one GPU, TFLOPS", "two GPUs, TFLOPS", "times", *JUDGED)
    yield table(columns, found).rstrip()


def _from_host(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "Operands and product in page-locked memory of the host, in tiles, each tile checked:"
    found = [
        (
            row["one"]["dtype"],
            f"`{row['one']['kernel']}`",
            f"{row['one']['n']}",
            f"{row['one']['product_s']:.2f}",
            f"{row['two']['product_s']:.2f}",
            f"{row['two']['tflops']:.1f}",
            f"{row['speedup']:.2f}",
            *_judged("from host", row["one"]["dtype"], row["one"]["kernel"], row["one"]["n"], row["speedup"]),
        )
        for row in rows
    ]
    columns = ("type", "kernel", "N", "one GPU, s", "two GPUs, s", "two GPUs, TFLOPS", "times", *JUDGED)
    yield table(columns, found).rstrip()


def _judged(what: str, dtype: str, kernel: str, n: int, speedup: float) -> tuple[str, str, str]:
    """Empty if there is no target."""
    bound = BOUNDS.get((what, dtype, kernel == "fp32_emulated", n))
    return (*bound.cells[:2], bound.verdict(speedup)) if bound else ("", "", "")


def _library(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    runs = ", ".join(f"{row['product_s']:.2f} s on {row['devices']}" for row in rows)
    yield f"cuBLASXt, float32, N = {rows[0]['n']}, without any check, by the number of GPUs: {runs}."


def _compared(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield (
        "The same product three ways. Differing: elements that are not bit for bit those of the product computed whole "
        "on one GPU. Ratio: the farthest residual of the check over its tolerance."
    )
    found = [
        (
            row["dtype"],
            f"`{row['kernel']}`",
            f"{row['n']}",
            row["way"],
            f"{row['differing_elements']:.2%}",
            f"{row['worst_ratio']:.2f}",
        )
        for row in rows
    ]
    yield table(("type", "kernel", "N", "way", "differing", "ratio"), found).rstrip()


def _ended(record: dict[str, Any]) -> Iterator[str]:
    yield f"{record['gpus']} × {record['device']}. {where(record)}"
    yield (
        "The child of a gang, killed (SIGKILL) or stopped (SIGSTOP) in the middle of a float32 product: seconds until "
        "the memory of both GPUs was free, until the job was queued again, and until it was done, right, with tiles of "
        "the first attempt. The targets are for the later of the first two, beyond the end of the lease."
    )
    found = [
        (
            row["fault"],
            f"{row['n']}",
            f"{row['tiles']}",
            f"{row['lease_s']:g}",
            f"{row['memory_free_s']:.2f}",
            f"{row['taken_back_s']:.2f}",
            f"{row['ended_s']:.1f}",
            f"{row['tiles_kept']}",
            *ENDED_S.cells[:2],
            ENDED_S.verdict(max(row["memory_free_s"], row["taken_back_s"]) - row["lease_s"]),
        )
        for row in record["rows"]
    ]
    columns = ("child", "N", "tiles", "lease, s", "memory free, s", "queued again, s", "done, s", "tiles kept", *JUDGED)
    yield table(columns, found).rstrip()


_SECTIONS = {"resident": _resident, "from host": _from_host, "cublas_xt": _library, "compared": _compared}
