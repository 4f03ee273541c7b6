"""The recorded parts of docs/scaling.md follow from their records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.tables.scaling.library_gang import library_gang
from benchmarks.tables.scaling.multi_gpu import multi_gpu
from benchmarks.tables.scaling.out_of_core import out_of_core, progress_of_tiles, tile_rows
from benchmarks.tables.service.scale import beats, cells, objects, walls

ENVIRONMENT = {"recorded_at": "2026-11-26T10:00:00+00:00", "cpu": "A CPU", "cores": 16}
RECORDS: dict[str, dict[str, Any]] = {
    "objects": {"sizes": [{"bytes": 64 << 20, "server_gb_per_s": 4.0, "store_gb_per_s": 3.0, "share": 0.75}]},
    "cells": {"cells": 4, "one_per_s": 500.0, "all_per_s": 1600.0, "ratio": 3.2},
    "beats": {
        **{"workers": 256, "renew_us": 40.0, "beat_us": 40.0, "read_us": 1000.0, "api_read_ms": 3.0},
        **{"beat_s": 1.0, "read_every_s": 0.5, "steps_us": {"submit": 100.0, "claim": 100.0, "succeed": 100.0}},
    },
}


def test_nothing_recorded_is_nothing_said(tmp_path: Path) -> None:
    assert [part(tmp_path) for part in (objects, cells, beats, walls)] == [""] * 4


def test_figures_and_verdicts(tmp_path: Path) -> None:
    for name, record in RECORDS.items():
        (tmp_path / f"scale_{name}.json").write_text(json.dumps({"environment": ENVIRONMENT} | record))
    assert "| 64 | 4.00 | 3.00 | 0.75 | ≥ 0.8 | ≥ 0.95 | 1 | missed |" in objects(tmp_path)
    assert "| 3.20 | ≥ 3 | ≥ 3.8 | 4 | reached |" in cells(tmp_path)
    half_a_second = next(line for line in beats(tmp_path).splitlines() if line.startswith("| 0.5 "))
    assert "8.2 %" in half_a_second, "256 GPUs with 4 leases each, twice a second, at 40 µs"
    assert half_a_second.endswith("| reached |")
    assert "3,333 jobs/s on a core" in walls(tmp_path) and "600 cells" in walls(tmp_path)
    assert "40 cells" in walls(tmp_path)


def test_products_in_tiles_are_judged_by_what_was_asked_for(tmp_path: Path) -> None:
    row = {
        **{
            "kernel": "cublas",
            "dtype": "float32",
            "n": 90_000,
            "tiles": 32,
            "tile_rows": 11_264,
            "tile_columns": 22_528,
        },
        **{"estimate_s": 29.58, "product_s": 30.0, "compared_s": 30.1, "tflops": 49.0, "allowed_bytes": None},
        **{"in_core_tflops": 53.0, "of_in_core": 0.92},
    }
    library = {
        "kernel": "cublas_xt",
        "dtype": "float32",
        "n": 90_000,
        "tile_rows": 4096,
        "product_s": 2.2,
        "tflops": 31.0,
    }
    smaller = row | {"n": 10_000, "of_in_core": 0.99}
    record = {"device": "A GPU", "rows": [row, row | {"of_in_core": 0.98}, smaller, library | {"of_in_core": 0.99}]}
    assert not list(tile_rows(tmp_path)) and not list(progress_of_tiles(tmp_path))
    (tmp_path / "x_out_of_core.json").write_text(json.dumps(record))
    rows = list(out_of_core(tmp_path))[1].splitlines()[2:]
    assert [line.rpartition(" | 0.9")[2] for line in rows] == [
        "2 | ≥ 0.9 | ≥ 0.97 | reached |",
        "8 | ≥ 0.9 | ≥ 0.97 | aim |",
        "9 |  |  |  |",
        "9 |  |  |  |",
    ]
    assert "2,100 for float32 by `cublas` at 53" in next(tile_rows(tmp_path)), "4 · 53e12 / (2 · 50e9)"
    assert '"eta_s": 29.6' in next(progress_of_tiles(tmp_path))


def test_two_gpus_are_judged_by_what_was_asked_for(tmp_path: Path) -> None:
    of = {"what": "resident", "kernel": "cublas", "n": 16_384, "one_tflops": 50.0, "two_tflops": 98.0}
    rows = [of | {"dtype": "float32", "speedup": 1.96}, of | {"dtype": "float16", "speedup": 1.96}]
    record = {"environment": ENVIRONMENT | {"python": "3", "versions": {}}, "device": "A GPU", "gpus": 2, "rows": rows}
    (tmp_path / "x_multi_gpu.json").write_text(json.dumps(record))
    judged, unasked = list(multi_gpu(tmp_path))[2].splitlines()[2:]
    assert judged.endswith("| 1.96 | ≥ 1.9 | ≥ 1.97 | reached |") and unasked.endswith("| 1.96 |  |  |  |")


def test_libraries_on_two_gpus_are_judged_by_what_was_asked_for(tmp_path: Path) -> None:
    assert not list(library_gang(tmp_path))
    of = {"what": "resident", "kernel": "cublasmp", "n": 16_384, "one_tflops": 50.0, "several_tflops": 93.0}
    types = {"float32": 1.86, "float16": 1.69, "bfloat16": 1.69}
    rows = [of | {"dtype": dtype, "speedup": times} for dtype, times in types.items()]
    job = {"estimate_s": 0.21, "kernel_s": 0.0871, "product_s": 0.2, "tflops": 43.98}
    rows.append({"what": "from host", "kernel": "cublasmp", "dtype": "float32", "n": 16_384, **job})
    about = {"environment": ENVIRONMENT | {"python": "3", "versions": {}}, "device": "A GPU", "gpus": 2}
    record = about | {"versions": {"cublasmp": "0.10.0"}, "rows": rows}
    (tmp_path / "x_library_gang.json").write_text(json.dumps(record))
    told, _, resident, _, jobs = library_gang(tmp_path)
    assert told.startswith("2 × A GPU, cublasmp 0.10.0, nccl ?.")
    reached, missed, unasked = resident.splitlines()[2:]
    assert reached.endswith("| 1.86 | ≥ 1.85 | reached |") and missed.endswith("| 1.69 | ≥ 1.7 | missed |")
    assert unasked.endswith("| 1.69 |  |  |")
    assert jobs.endswith("| float32 | `cublasmp` | 16384 | 0.210 | 0.087 | 0.200 | 44.0 |")
