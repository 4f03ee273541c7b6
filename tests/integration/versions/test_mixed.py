"""A rolling upgrade as it is: processes of two versions on one Redis, with jobs of all sorts."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.mixed_versions import run, way, wrong
from tests.support.mixed_stack import VERSIONS
from tests.support.other_version import changed_copy

JOBS = 60


def test_no_job_is_lost_or_unreadable_while_two_versions_are_at_work(tmp_path: Path) -> None:
    """Through both APIs, by workers of the other version, of both, and of this one. `python -m
    tests.chaos.mixed_versions` does the same in bulk."""
    found = run(tmp_path, changed_copy(tmp_path / "other"), JOBS)
    assert wrong(found) == {}, found
    assert found["ways"].keys() == {way(api, worker) for api in VERSIONS for worker in VERSIONS}
    assert {*found["sorts"]} == {
        *("inline", "random", "stored", "referring", "chain", "named", "new_field", "benchmark")
    }


def test_whatever_a_job_must_not_become_is_counted() -> None:
    whole = {"jobs": 5, "sorts": {"benchmark": 1}, "succeeded": 10, "results_200": 2, "not_listed": 0, "page_200": 8}
    assert wrong(whole) == {}
    assert wrong(whole | {"succeeded": 9, "get_404": 1}) == {"succeeded": -1, "get_404": 1}
    assert wrong(whole | {"unreadable": 1, "page_500": 2}) == {"unreadable": 1, "page_500": 2}
    assert wrong({name: count for name, count in whole.items() if name != "succeeded"}) == {"succeeded": -10}
