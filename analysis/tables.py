"""Results as tidy tables: one row for each case, the same columns in every file, units in their names."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from typing import Any, Literal

from analysis.condition import condition
from analysis.curves import is_library
from analysis.library import baseline_fractions
from analysis.measurement import size_of
from analysis.result_models import CaseResult, Results
from analysis.results import measurements
from jobs.benchmarks.records import Checked, CopyFigures
from jobs.errors import ExtraMissing
from kernels.catalog import CATALOG

Kind = Literal["text", "integer", "number", "truth"]
Value = str | int | float | bool | None
Column = tuple[Kind, Callable[[CaseResult], Value]]

PARAMETERS = tuple(dict.fromkeys(parameter.name for kernel in CATALOG for parameter in kernel.parameters))


def _plain(kind: Kind, *names: str) -> dict[str, Column]:
    """Columns that are fields of the case."""
    return {name: (kind, lambda one, name=name: getattr(one, name)) for name in names}  # type: ignore[misc]


def _inner(kind: Kind, part: str, names: Mapping[str, str]) -> dict[str, Column]:
    """Columns that are fields of a part of the case; empty if the case has no such part."""
    return {
        column: (kind, lambda one, name=name: getattr(getattr(one, part), name, None))  # type: ignore[misc]
        for column, name in names.items()
    }


def _parameter(name: str) -> Column:
    return "integer", lambda one: one.config.get(name)


COPIES = tuple(CopyFigures.model_fields)
COLUMNS: dict[str, Column] = {
    **_plain("text", "case", "kernel", "device_class", "dtype", "accuracy"),
    **_plain("integer", "m", "n", "k", "batch"),
    "size": ("text", lambda one: size_of(one.m, one.n, one.k, one.batch)),
    "config": ("text", lambda one: " ".join(f"{name}={value}" for name, value in one.config.items())),
    **{name: _parameter(name) for name in PARAMETERS},
    "is_baseline": ("truth", lambda one: one.case == one.baseline),
    **_plain("text", "baseline", "status", "reason", "cache", "layout"),
    **_plain("integer", "flops", "bytes_min"),
    **_plain("number", "kernel_ms", "gflops", "gflops_lo", "gflops_hi"),
    **_inner("number", "time_us", {f"time_{name}_us": name for name in ("min", "q1", "median", "q3", "p95", "max")}),
    **_inner("number", "time_us", {"time_mean_us": "mean", "time_stdev_us": "stdev"}),
    **_plain("number", "rel_iqr", "ci95_lo_us", "ci95_hi_us"),
    "rounds": ("integer", lambda one: len(one.rounds)),
    **_plain("integer", "samples", "discarded", "inner_reps"),
    **_plain("text", "stop_reason"),
    **_inner(
        "number",
        "fraction_of_baseline",
        {"fraction_of_baseline": "value", "fraction_of_baseline_lo": "lo", "fraction_of_baseline_hi": "hi"},
    ),
    **_plain("number", "speedup_vs_naive", "roof_gflops"),
    **_plain("text", "roof_kind"),
    **_plain("number", "fraction_of_roof"),
    "ai_min_flop_per_byte": ("number", lambda one: one.ai_min),
    "ai_tile_flop_per_byte": ("number", lambda one: one.ai_tile),
    **_plain("number", "gflops_per_ghz", "gflops_per_w", "energy_mj", "cpu_launch_us", "compile_ms"),
    **_inner("number", "copies", {name: name for name in COPIES}),
    **_inner("number", "copies_pageable", {f"pageable_{name}": name for name in COPIES}),
    **_inner("integer", "launch", {name: name for name in ("registers", "local_bytes", "static_smem_bytes")}),
    **_inner("integer", "launch", {name: name for name in ("dyn_smem_bytes", "resident_blocks")}),
    **_inner("number", "launch", {name: name for name in ("occupancy", "waves")}),
    **_inner("number", "state", {name: name for name in ("sm_clock_mhz", "sm_clock_min_mhz", "mem_clock_mhz")}),
    **_inner("number", "state", {name: name for name in ("temp_c_start", "temp_c_max", "power_w_mean")}),
    "verified": ("truth", lambda one: _verified(one.before, one.after)),
    **_inner("number", "after", {"residual": "residual", "threshold": "threshold"}),
    **_plain("number", "error_vs_float64", "worst_row_error"),
    **_plain("truth", "contended", "throttled", "power_limited"),
    "condition": ("text", lambda one: condition(one).kind),
    "fraction_of_library": ("number", lambda _: None),  # follows from the whole run: `rows` has it
}


def _verified(*checks: Checked | None) -> bool | None:
    known = [check.passed for check in checks if check is not None]
    return all(known) if known else None


def rows(results: Results) -> list[dict[str, Value]]:
    """Shares of the library are relative to its best result in the run."""
    shares = baseline_fractions(measurements(results))
    return [
        {name: value(one) for name, (_, value) in COLUMNS.items()}
        | {"fraction_of_library": None if is_library(one.kernel) else share}
        for one, share in zip(results.records, shares, strict=True)
    ]


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet calculates begins with one of them


def cell(value: Value) -> Value:
    """The value as CSV has it. A text that would be a formula begins with an apostrophe: a file of results that was
    imported may hold any text."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def to_csv(results: Results) -> str:
    """RFC 4180 with a header; unknown values are empty, booleans are `true` and `false`."""
    held = io.StringIO(newline="")
    writer = csv.writer(held)
    writer.writerow(COLUMNS)
    for row in rows(results):
        writer.writerow(map(cell, row.values()))
    return held.getvalue()


def to_parquet(results: Results) -> bytes:
    """`rows` with typed columns, also if all values are unknown. Raises ExtraMissing without pyarrow."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ExtraMissing("Parquet needs pyarrow: install the extra `parquet`.") from None
    types: dict[Kind, Any] = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "truth": pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, (kind, _) in COLUMNS.items()])
    held = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows(results), schema=schema), held)
    return bytes(held.getvalue())
