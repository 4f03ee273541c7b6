"""A rolling upgrade as it is: processes of two versions on one Redis, with jobs of all sorts."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.mixed_versions import run
from tests.support.other_version import changed_copy

JOBS = 60


def test_no_job_is_lost_or_unreadable_while_two_versions_are_at_work(tmp_path: Path) -> None:
    """Through both APIs, by workers of the other version, of both, and of this one. `python -m
    tests.chaos.mixed_versions` does the same in bulk."""
    found = run(tmp_path, changed_copy(tmp_path / "other"), JOBS)
    seen = {name: value for name, value in found.items() if name not in ("sorts", "rounds", "seconds", "jobs")}
    whole = {"succeeded": 2 * found["jobs"], "not_listed": 0, "unreadable": 0, "results_200": 4}
    assert {name: value for name, value in seen.items() if not name.startswith("page_")} == whole, found
    assert {name for name in seen if name.startswith("page_")} <= {"page_200", "page_303"}
    assert {*found["sorts"]} == {"inline", "random", "stored", "chain", "named", "new_field", "benchmark"}
