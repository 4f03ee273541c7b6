"""The text that docs/reliability.md contains about a record of cells under faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.tables.reliability.cells import chaos_cells
from benchmarks.tables.reliability.promises import promises

ENVIRONMENT = {"recorded_at": "2026-11-28T00:00:00+00:00", "cpu": "A CPU", "cores": 2, "python": "3.11", "versions": {}}


def speed(answers: int, slowest: float, errors: int = 0) -> dict[str, Any]:
    return {"answers": answers, "errors": errors, "p50_ms": 2.0, "p99_ms": slowest / 2, "max_ms": slowest}


def run(seed: int, death: dict[str, Any], defects: int = 0) -> dict[str, Any]:
    counts = dict.fromkeys(("lost", "wrong", "doubled", "stuck", "failed"), 0)
    by_kind = {"cell killed": {"times": 2, **death}, "none": speed(100, 40.0)}
    return {
        "seed": seed,
        "accepted": 900,
        "faults": 2,
        **counts,
        "answers": 3000,
        "defects": defects,
        "by_kind": by_kind,
    }


def test_counts_are_added_up_and_the_longest_times_shown(tmp_path: Path) -> None:
    runs = [
        run(1, {"own": {"cell_unavailable": 600, "cut short": 1}, "down": speed(50, 20.0), "back": speed(70, 90.0)}),
        run(2, {"own": {"cell_unavailable": 500, "closed": 2, "answered": 9}, "down": speed(60, 30.0, 1)}, defects=3),
    ]
    (tmp_path / "chaos_cells.json").write_text(json.dumps({"environment": ENVIRONMENT, "runs": runs}))
    text = "\n".join(chaos_cells(tmp_path))
    assert "| all | 1,800 | 4 | 0 | 0 | 0 | 0 | 0 | 6,000 | 3 |" in text
    assert "| cell killed | 4 | 1,100 | 0 | 0 | 3 | 9 | 110 | 1 | 2 | 15 | 30 | 90 |" in text
    assert "| none |  |  |  |  |  |  | 200 | 0 | 2 | 20 | 40 |  |" in text
    assert "0 / 3 of 1,800 and 6,000 under 4, 2 seeds" in "\n".join(promises(tmp_path))


def test_nothing_is_said_where_nothing_is_recorded(tmp_path: Path) -> None:
    assert list(chaos_cells(tmp_path)) == []
