"""The text that docs/reliability.md contains about a chaos record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.tables.reliability.chaos import chaos

ENVIRONMENT = {"recorded_at": "2026-11-24T00:00:00+00:00", "cpu": "A CPU", "cores": 2, "python": "3.11", "versions": {}}


def run(seed: int, *, lost: int = 0, **taken_back: float) -> dict[str, Any]:
    return {
        "seed": seed,
        "accepted": 1000,
        "faults": 3,
        "lost": lost,
        **dict.fromkeys(("wrong", "doubled", "stuck", "failed"), 0),
        "left_behind": {"keys": 0, "files": 1},
        "calls": {"calls": 9000, "before": 90, "executed": 80},
        "faults_by_kind": {"child killed": 2, "BUSY": 1},
        "back_in_the_queue": {"child killed": {"jobs": 4, **taken_back}},
    }


def test_runs_are_added_up_and_the_longest_times_shown(tmp_path: Path) -> None:
    runs = [run(1, p50_s=0.1, p99_s=0.2, max_s=0.25), run(2, lost=3, p50_s=0.3, p99_s=0.4, max_s=0.5)]
    record = {"environment": ENVIRONMENT, "not_run": {"clock jumped": "there is no libfaketime"}, "runs": runs}
    (tmp_path / "chaos.json").write_text(json.dumps(record))
    text = "\n".join(chaos(tmp_path))
    assert "| all | 2,000 | 6 | 3 | 0 | 0 | 0 | 0 | 2 |" in text
    assert "| child killed | 4 | 8 | 0.30 s | 0.40 s | 0.50 s |" in text
    assert "| BUSY | 2 |" in text
    assert "340 of 18,000 calls" in text
    assert "clock jumped (there is no libfaketime)" in text


def test_the_nearest_to_its_bound_of_any_run_comes_first(tmp_path: Path) -> None:
    plain = run(1, p50_s=0.1, p99_s=0.2, max_s=0.25)
    runs = [
        plain,
        plain | {"margins": {"a start, s": [48.05, 60.0], "connections": [34, 72]}},
        plain | {"margins": {"a start, s": [50.0, 120.0], "connections": [26, 72]}},
    ]
    (tmp_path / "chaos.json").write_text(json.dumps({"environment": ENVIRONMENT, "not_run": {}, "runs": runs}))
    text = "\n".join(chaos(tmp_path))
    assert "| a start, s | 48.05 | 60 |\n| connections | 34 | 72 |\n| a start, s | 50 | 120 |" in text


def test_nothing_is_said_where_nothing_is_recorded(tmp_path: Path) -> None:
    assert list(chaos(tmp_path)) == []
