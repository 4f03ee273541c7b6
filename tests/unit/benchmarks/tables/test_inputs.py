"""What docs/reliability.md says of recorded inputs, and how their records add up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recorded import read
from benchmarks.tables.reliability.inputs import fuzz, malformed, openapi
from benchmarks.tables.reliability.mixed import mixed
from tests.support.runs import RunsRecord, origin

ORIGIN = {"commit": "0123456789ab", "cpu": "A CPU", "cores": 2, "python": "3.11", "versions": {}}


def sent(seed: int, **found: Any) -> dict[str, Any]:
    counts = {"requests": 1000, "told_503": 1, "restarts": 0, "tracebacks": 0, "bad": {}}
    return {"seed": seed, **ORIGIN, **counts, **found}


def test_malformed_requests_are_added_up_by_device_and_commit(tmp_path: Path) -> None:
    record = RunsRecord(tmp_path / "malformed.json")
    for run in (sent(1), sent(2, bad={"status 500": 2}), sent(3, cores=16, restarts=1)):
        record.add(run)
    text = "\n".join(malformed(tmp_path))
    assert "| A CPU, 2 cores, Python 3.11 | 0123456789ab | 2 | 2,000 | 2 | 2 | 0 | 0 |" in text
    assert "| A CPU, 16 cores, Python 3.11 | 0123456789ab | 1 | 1,000 | 0 | 1 | 1 | 0 |" in text
    assert "| all |  | 3 | 3,000 | 2 | 3 | 1 | 0 |" in text


def test_runs_of_a_target_are_added_up(tmp_path: Path) -> None:
    record = RunsRecord(tmp_path / "fuzz.json")
    for runs, edges, findings in ((1000, 7, []), (2500, 9, ["npy: ValueError"])):
        found = {"npy": {"runs": runs, "edges": edges, "features": 20}}
        record.add({"seed": runs, **ORIGIN, "runs": runs, "findings": findings, "targets": found})
    text = "\n".join(fuzz(tmp_path))
    assert "| `npy` | 3,500 | 9 |" in text
    assert "| all | 3,500 |  |" in text
    assert "A CPU, 2 cores, Python 3.11, at 0123456789ab. Inputs that broke something: 1." in text


def test_made_up_requests_are_added_up_by_operation(tmp_path: Path) -> None:
    record = RunsRecord(tmp_path / "fuzz_api.json")
    for failures in (0, 2):
        found = {"GET /v1/jobs": {"coverage": 100, "fuzzing": 1000, "failures": failures, "seconds": 1.5}}
        record.add({"seed": failures, **ORIGIN, "requests": 1100, "failures": failures, "operations": found})
    text = "\n".join(openapi(tmp_path))
    assert "| `GET /v1/jobs` | 0 | 200 | 2,000 | 0 | 2 |" in text
    assert "| all | 0 | 200 | 2,000 | 0 | 2 |" in text
    assert "2,200 requests; runs: 2." in text


def test_two_versions_are_added_up_by_who_did_what_for_whom(tmp_path: Path) -> None:
    record = RunsRecord(tmp_path / "mixed_versions.json")
    ways = {"this API, other worker": 400, "other API, this worker": 500}
    for bad in ({}, {"get_404": 2}):
        record.add({"other": "a changed copy", **ORIGIN, "jobs": 1000, "ways": ways, "bad": bad})
    text = "\n".join(mixed(tmp_path))
    assert "| this API, other worker | 800 |" in text and "| other API, this worker | 1,000 |" in text
    assert "a changed copy. 2,000 jobs in 2 runs." in text and "used up: 2 get_404." in text


@pytest.mark.parametrize("part", [malformed, openapi, fuzz, mixed])
def test_nothing_is_said_where_nothing_is_recorded(part: Callable[[Path], Iterator[str]], tmp_path: Path) -> None:
    assert list(part(tmp_path)) == []


@pytest.mark.parametrize("name", ["record.json", "record.json.gz"])
def test_a_record_goes_on_where_it_ended(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for seed in (1, 2):
        RunsRecord(path).add(sent(seed))
    again = RunsRecord(path)
    assert [run["seed"] for run in again.runs] == [1, 2]
    assert again.total("requests") == 2000
    assert read(path) == {"runs": again.runs}


def test_a_run_says_where_it_was_made() -> None:
    made = origin("orjson", commit="abc")
    assert made["commit"] == "abc"
    assert made["versions"]["orjson"]
    assert origin()["commit"] != "abc"
