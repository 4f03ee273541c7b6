"""What docs/performance.md says of the service beside its peers, and of the way of a product."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.tables.service.large_bodies import large_bodies
from benchmarks.tables.service.path import BOUNDS, WHAT, path
from benchmarks.tables.service.path_steps import MEASURED, picture, times
from benchmarks.tables.service.peers import peers
from benchmarks.tables.write import paths_by_host, step_pictures
from tests.soak.large_bodies import growth
from tests.soak.sample import ProcessSample, Sample

TIMES = {f"{name}_ms": 1.0 for name in MEASURED}


def path_record(day: int, **steps: float) -> dict[str, Any]:
    rows = [
        {"line": "stored", "n": 4096, "service": 43.0 / day, "bare": 4.0, "kernel": "fp32_emulated", "samples": 9},
        {"line": "queued", "n": 4096, "service": 26.0 * day, "bare": 300.0, "count": 64, "samples": 7},
        {"line": "two workers", "n": 4096, "service": 39.0 * day, "bare": 300.0, "count": 64, "samples": 7},
        {"line": "two workers", "n": 1024, "service": 39.0, "bare": 300.0, "count": 64, "samples": 7},
        {"line": "new shape", "service": 4.0, "worst": 6700.0, "samples": 40},
        {"line": "steps", "n": 4096, "caller_ms": 43.0 / day, "queue_ms": 1.0, **TIMES, **steps},
    ]
    return {"device": "NVIDIA H200", "load_before": [0.5, 0, 0], "rows": rows} | record(day)


def record(day: int) -> dict[str, Any]:
    return {"environment": {"recorded_at": f"2026-11-{day:02d}T00:00:00+00:00"}}


def peers_record(day: int, ours: float, *, with_pytriton: bool = True) -> dict[str, Any]:
    rounds = {"service": [ours, 2 * ours, 3 * ours], "naive": [5.0, 5.0, 5.0]}
    if with_pytriton:
        rounds["pytriton"] = [2.0, 8.0, 6.0]
    rows = [
        {"clients": clients, "n": 16, "server": server, "rounds": values}
        for clients in (1, 16)
        for server, values in rounds.items()
    ]
    server_time = {"commands_us": 323.0, "scripts_us": 300.0, "cpu_us": 500.0, "commands": 14.2}
    versions = {"nvidia-pytriton": "0.7.0"} if with_pytriton else None
    about = {"threads": 1, "load_before": [3, 2, 1], "niceness": 0, "pytriton": versions, "server_time": server_time}
    return about | {"rows": rows} | record(day)


def written(folder: Path, records: dict[str, dict[str, Any]]) -> list[Path]:
    for name, one in records.items():
        (folder / name).write_text(json.dumps(one))
    return [folder / name for name in records]


def test_every_line_with_a_bound_is_told() -> None:
    assert {line for line, _ in BOUNDS} <= WHAT.keys()


def test_the_way_of_a_product_is_told_beside_its_bounds_and_the_first_record(tmp_path: Path) -> None:
    paths = written(tmp_path, {"h200_path_b.json": path_record(20), "h200_path_a.json": path_record(2)})
    told = "\n".join(path("h200_path", paths, "Here."))
    stored = "stored references, one at a time, no product back, ms"
    assert f"| {stored} | 4096 | 2.15 | 4 |  | 21.5 | ≤ 7 | ≤ 4.5 | 2.1 | aim |" in told
    assert "| 4096 | 520 (71.5 TFLOP/s) | 300 |  | 52 | ≥ 400 | ≥ 700 | 801 | reached |" in told
    assert "| two workers over one, times | 4096 | 1.5 |  |  | 1.5 | ≥ 1.85 | ≥ 1.95 | 2 | missed |" in told
    assert "times | 1024" not in told, "one worker alone was not measured there"
    assert "median of 40 shapes |  | 4 |  |  | 4 | ≤ 5 |  |  | reached |" in told
    assert "| the same, worst shape |  | 6,700 |  |  | 6,700 | ≤ 50 |  |  | missed |" in told
    assert "(images/h200_path.svg)" in told


def test_a_record_alone_has_none_before_it(tmp_path: Path) -> None:
    told = "\n".join(path("h200_path", written(tmp_path, {"h200_path_a.json": path_record(2)}), "Here."))
    assert "before |" not in told
    assert "| 4096 | 21.5 | 4 |  | ≤ 7 | ≤ 4.5 | 2.1 | missed |" in told


def test_steps_and_the_rest_are_all_that_a_caller_waits() -> None:
    row = path_record(2, store_ms=10.0)["rows"][-1]
    assert times(row) == {**dict.fromkeys(MEASURED, 1.0), "store": 10.0, "rest": 21.5 - 16.0}


def test_the_picture_has_both_records_and_every_step(tmp_path: Path) -> None:
    one = (picture(None, path_record(2)) or b"").decode()
    both = (picture(path_record(2), path_record(20)) or b"").decode()
    assert all(f">{step}<" in both for step in (*MEASURED, "rest"))
    assert ">before<" in both and ">21.5 ms<" in both and ">2.15 ms<" in both
    assert ">before<" not in one
    nothing = path_record(2)
    nothing["rows"].pop()
    assert picture(None, nothing) is None


def test_records_are_told_apart_by_their_hosts(tmp_path: Path) -> None:
    names = ("h100_path_1.json", "h200_path_1.json", "h200_path_2.json")
    written(tmp_path, {name: path_record(day) for day, name in enumerate(names, start=1)})
    assert {host: len(found) for host, found in paths_by_host(tmp_path).items()} == {"h100": 1, "h200": 2}
    assert step_pictures(tmp_path).keys() == {"h100_path.svg", "h200_path.svg"}


def test_the_ratio_to_pytriton_is_the_median_of_the_rounds_own(tmp_path: Path) -> None:
    records = {"peers_b.json": peers_record(2, 2.8), "peers_a.json": peers_record(1, 6.0)}
    one, many, _, ledger = list(peers(written(tmp_path, records), "Here."))[-4:]
    assert "| 16 | 5.6 | 6 |  | 5 | 1.4 | 3 | ≤ 1.5 | ≤ 1 | reached |" in one
    assert "| 256 |  |  |  |  |  |  | ≤ 1.15 | ≤ 0.9 |  |" in one
    assert "| 16 | 5.6 | 6 |  | 5 | 1.4 | 3 | ≥ 1.2 | ≥ 4 | reached |" in many
    assert "| all commands, µs a product | 323 | 323 | ≤ 150 | ≤ 60 | missed |" in ledger


def test_without_pytriton_no_bound_is_said_to_hold(tmp_path: Path) -> None:
    told = list(peers(written(tmp_path, {"peers_a.json": peers_record(1, 1.0, with_pytriton=False)}), "Here."))
    assert "(not measured in this run)" in told[1]
    assert "| 16 | 2 |  |  | 5 |  | ≤ 1.5 | ≤ 1 |  |" in told[3]


def test_two_workers_alone_have_a_section_of_their_own(tmp_path: Path) -> None:
    whole = path_record(20)
    whole["rows"] = [row for row in whole["rows"] if row["line"] in ("queued", "two workers")]
    told = "\n".join(path("h100x2_path", written(tmp_path, {"h100x2_path_a.json": whole}), "Here."))
    assert told.startswith("## Two workers on two GPUs: NVIDIA H200\n")
    assert "| two workers over one, times | 4096 | 1.5 |" in told
    assert "images" not in told


def test_memory_while_large_bodies_pass(tmp_path: Path) -> None:
    assert list(large_bodies(tmp_path)) == []
    memory = {"API": [80.0, 80.5, 81.0], "worker 0": [50.0, 90.0, 90.0]}
    about = {"cpu": "a CPU", "cores": 2, "python": "3.12.3", "versions": {"numpy": "2.5.2"}}
    found = {"gib": 80.25, "body_mib": 256, "seconds": 91.6, "memory_mib": memory, "growing": ["worker 0"], "wrong": []}
    environment = {"environment": about | {"recorded_at": "2026-11-26T00:00:00+00:00"}}
    written(tmp_path, {"large_bodies.json": found | environment})
    told = "\n".join(large_bodies(tmp_path))
    assert "80 GiB in bodies of 256 MiB" in told
    assert "Found to grow: worker 0." in told
    assert "| worker 0 | 50.0 | 90.0 | 90.0 |" in told


def test_memory_that_grows_is_found() -> None:
    def at(number: int) -> Sample:
        processes = {"API": ProcessSample(80 << 10, 0, 9), "worker 0": ProcessSample((50 + number) << 10, 0, 9)}
        return Sample(float(number), number, processes, 0, 0, 0, 0)

    assert growth([at(number) for number in range(40)]) == {"API": (80.0, 80.0, 80.0), "worker 0": (54.5, 84.5, 89.0)}
