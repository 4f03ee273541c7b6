"""The table at the head of docs/reliability.md says what the records show, and shows what is wrong in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.tables.reliability.promises import PROMISES, promises
from benchmarks.tables.write import RESULTS
from tests.openapi.__main__ import missing


def written(directory: Path, name: str, *runs: dict[str, Any]) -> str:
    (directory / name).write_text(json.dumps({"runs": runs}))
    return "\n".join(promises(directory))


def test_nothing_is_promised_where_nothing_is_recorded(tmp_path: Path) -> None:
    assert list(promises(tmp_path)) == []


def test_every_promise_has_a_record() -> None:
    assert "\n".join(promises(RESULTS)).count("\n| ") == len(PROMISES) + 1


def test_a_lost_job_shows_in_the_sum_of_all_seeds(tmp_path: Path) -> None:
    run = {"accepted": 5000, "faults": 25, "lost": 0, "wrong": 0, "doubled": 0, "stuck": 0, "failed": 0}
    text = written(tmp_path, "chaos.json", run, run | {"lost": 1})
    assert "| 1 / 0 / 0 / 0 / 0 of 10,000 under 50, 2 seeds |" in text


def test_jobs_count_by_the_way_that_they_crossed(tmp_path: Path) -> None:
    ways = {"this API, other worker": 700, "other API, this worker": 800, "this API, this worker": 900}
    text = written(tmp_path, "mixed_versions.json", {"ways": ways, "bad": {"get_404": 3}})
    assert "| 3 of 700 and 800 |" in text


def test_the_last_soak_on_each_python_is_told_and_all_jobs_are(tmp_path: Path) -> None:
    runs = [
        {
            "python": python,
            "seconds": seconds,
            "jobs": 1000,
            "lost": 0,
            "verdict": {"memory": {"API": {"per_h": per_h}}},
        }
        for python, seconds, per_h in (("3.11.7", 9000.0, 9.0), ("3.11.7", 3600.0, 0.25), ("3.12.3", 300.0, 4.0))
    ]
    told = written(tmp_path, "soak.json", *runs)
    assert "0.25 MiB/h in 60 minutes on Python 3.11.7" in told and "9.00" not in told
    assert "4.00 MiB/h in 5 minutes on Python 3.12.3; 0 of 3,000 lost |" in told


def test_operations_with_too_few_examples_do_not_count(tmp_path: Path) -> None:
    runs = [
        {"of": of, "examples": examples, "failures": failures, "requests": 50}
        for of, examples, failures in (
            *(("GET /livez", 1000, 0), ("GET /livez", 1000, 0), ("chains", 1000, 0)),
            *(("GET /v1/jobs", 100, 0), ("GET /v1/queues", 1000, 1)),
        )
    ]
    assert "| 1 of 250; 1 operations and chains with so many |" in written(tmp_path, "fuzz_api.json", *runs)
    assert missing(["GET /livez", "GET /v1/jobs", "GET /v1/queues"], runs, 1000) == ["GET /v1/jobs", "GET /v1/queues"]
