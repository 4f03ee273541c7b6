"""The recorded parts of docs/scaling.md follow from their records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    assert "| 64 " in objects(tmp_path) and "missed" in objects(tmp_path)
    assert "3.20" in cells(tmp_path) and "reached" in cells(tmp_path)
    half_a_second = next(line for line in beats(tmp_path).splitlines() if line.startswith("| 0.5 "))
    assert "8.2 %" in half_a_second, "256 GPUs with 4 leases each, twice a second, at 40 µs"
    assert "3,333 jobs/s on a core" in walls(tmp_path) and "600 cells" in walls(tmp_path)
    assert "40 cells" in walls(tmp_path)
