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
    record = {"environment": ENVIRONMENT, "not_run": {"clock jumped": "there is no g++"}, "runs": runs}
    (tmp_path / "chaos.json").write_text(json.dumps(record))
    text = "\n".join(chaos(tmp_path))
    assert "| all | 2,000 | 6 | 3 | 0 | 0 | 0 | 0 | 2 |" in text
    assert "| child killed | 4 | 8 | 0.30 s | 0.40 s | 0.50 s |" in text
    assert "| BUSY | 2 |" in text
    assert "340 of 18,000 calls" in text
    assert "clock jumped (there is no g++)" in text


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


def test_what_took_part_of_a_layout_is_told(tmp_path: Path) -> None:
    plain = run(1, p50_s=0.1, p99_s=0.2, max_s=0.25)
    objects = {"put": 1200, "got": 300, "sent_bytes": 2 * 10**9, "received_bytes": 10**9}
    tiles = {"products": 40, "tiles": 800, "on_several_gpus": 40, "run_again": 7}
    tiles |= {"tiles_kept": 22, "faults_in_the_middle": 6}
    runs = [plain | {"objects": objects}, plain | {"objects": objects}, plain | {"tiles": tiles, "devices": ["A GPU"]}]
    (tmp_path / "other.json").write_text(json.dumps({"environment": ENVIRONMENT, "not_run": {}, "runs": runs}))
    text = "\n".join(chaos(tmp_path, "other"))
    assert "2,400 PUT requests, 4.00 GB, and 600 GET requests, and received 2.00 GB" in text
    assert "40 products went in 800 tiles, 40 of them on several GPUs (A GPU). 6 faults met" in text
    (tmp_path / "chaos.json").write_text(json.dumps({"environment": ENVIRONMENT, "not_run": {}, "runs": [plain]}))
    assert "object store" not in "\n".join(chaos(tmp_path))
