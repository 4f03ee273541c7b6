"""Figures of other runs stand beside the newest with what was not the same: date, host, turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.tables.service.path import path
from benchmarks.tables.service.peers import peers
from tests.unit.benchmarks.tables.test_service import path_record, peers_record, written


def on_host(record: dict[str, Any], cores: int, **about: Any) -> dict[str, Any]:
    environment = record["environment"] | {"cpu": "a CPU", "cores": cores}
    return record | about | {"environment": environment}


def test_the_first_record_is_told_with_its_host_and_its_turns(tmp_path: Path) -> None:
    newest = on_host(path_record(20), 32, in_a_row=4, api_processes=8)
    told = "\n".join(
        path("h200_path", written(tmp_path, {"a.json": on_host(path_record(2), 16), "b.json": newest}), "Here.")
    )
    assert "*Before*: the first record, of 2026-11-02, on a CPU, 16 cores, by way of one API process, in turns" in told
    assert "in turns of one product: what compares with it is the first of a turn." in told
    alike = on_host(path_record(2), 32, in_a_row=4)
    told = "\n".join(path("h200_path", written(tmp_path, {"a.json": alike, "b.json": newest}), "Here."))
    assert "by way of one API process." in told and "in the same turns, on a host of that kind" in told


def test_other_runs_on_another_host_are_not_said_to_be_on_such_a_host(tmp_path: Path) -> None:
    records = {
        f"{day}.json": on_host(path_record(day), cores, in_a_row=4) for day, cores in ((1, 32), (2, 16), (3, 32))
    }
    told = "\n".join(path("h200_path", written(tmp_path, records), "Here."))
    assert "of that kind" not in told and "on these hosts: a CPU, 16 cores; a CPU, 32 cores" in told


def test_ratios_of_earlier_runs_on_such_a_host_stand_beside_the_newest(tmp_path: Path) -> None:
    """The first is before them all; a run on another host does not count."""
    runs = ((1, 9.0, 2), (2, 2.4, 2), (3, 2.6, 2), (4, 7.0, 8), (5, 2.8, 2))
    records = {f"{day}.json": on_host(peers_record(day, ours), cores) for day, ours, cores in runs}
    told = "\n".join(peers(written(tmp_path, records), "Here."))
    assert "Other runs: the ratios of 2 earlier ones" in told and "| ratio to PyTriton | other runs | before |" in told
    assert "| 1.4 | 1.2 to 1.3 | 4.5 | ≤ 1.5 | ≤ 1 | reached |" in told


def test_a_line_that_only_an_earlier_run_has_keeps_its_verdict(tmp_path: Path) -> None:
    """A run with one GPU does not take away what a run with two has missed."""
    first, two, one = (on_host(path_record(day), 32, in_a_row=4) for day in (1, 2, 3))
    for record in (first, one):
        record["rows"] = [row for row in record["rows"] if row["line"] != "two workers"]
    told = "\n".join(path("h200_path", written(tmp_path, {"1.json": first, "2.json": two, "3.json": one}), "Here."))
    assert "| two workers over one, times | 4096 |  | 1.5 |  |  |  | ≥ 1.85 | ≥ 1.95 | 2 | missed |" in told
    assert "A line without a figure in the column of the service was not measured in this run" in told
    alone = "\n".join(path("h200_path", written(tmp_path, {"3.json": one}), "Here."))
    assert "without a figure" not in alone
