"""`make bench-path` on a CPU, with tiny products: every line is measured, and told."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil

from benchmarks.measure.path.__main__ import main
from benchmarks.tables.service.path import path as path_section
from benchmarks.tables.service.path_steps import MEASURED, picture, times

SMALL = ["--device", "cpu", "--sizes", "16", "48", "--queued", "4", "--clients", "4", "--processes", "2"]
LONG_S = 240.0


def recorded(out: Path) -> list[object]:
    """A file is there before the first row is."""
    rows: list[object] = json.loads(out.read_text())["rows"] if out.exists() else []
    return rows


def test_every_line_is_measured(tmp_path: Path) -> None:
    out = tmp_path / "cpu_path_now.json"
    few = ["--client-s", "0.2", "--shapes", "2", "--batch", "20"]
    main([*SMALL, *few, "--second-device", "cpu", "--budget-s", "600", "--out", str(out)])
    record = json.loads(out.read_text())
    rows = record["rows"]
    assert [(row["line"], row.get("n")) for row in rows] == [
        ("stored", 16),
        ("inline", 16),
        ("stored", 48),
        ("inline", 48),
        ("queued", 48),
        ("clients", 16),
        ("upload", 48),
        ("ranges", 48),
        ("reply", 48),
        ("steps", 16),
        ("steps", 48),
        ("new shape", None),
        ("batch", 64),
        ("two workers", 48),
    ], "on a CPU nothing is copied to a device"
    assert all(row["service"] > 0 for row in rows if row["line"] not in ("steps", "new shape"))
    for row in rows:
        if row["line"] == "inline":
            assert 0 <= row["queue"] <= row["total"]
        if row["line"] == "steps":
            assert all(times(row)[name] > 0 for name in ("queue", "open", "kernel", "check", "store"))
            assert sum(times(row)[name] for name in MEASURED) < 20 * row["caller_ms"]
    told = "\n".join(path_section("cpu_path", [out], "Here."))
    assert "two workers over one, times | 48 |" in told and "| 64 |" in told
    assert picture(None, record) is not None


def test_a_run_that_is_told_to_end_leaves_its_rows_and_no_process(tmp_path: Path) -> None:
    out = tmp_path / "cpu_path_cut.json"
    command = [sys.executable, "-m", "benchmarks.measure.path", *SMALL, "--shapes", "100000", "--out", str(out)]
    with subprocess.Popen([*command, "--budget-s", "600"], stdout=subprocess.DEVNULL) as run:
        ends_at = time.monotonic() + LONG_S
        while not recorded(out) and time.monotonic() < ends_at:
            assert run.poll() is None
            time.sleep(0.05)
        started = psutil.Process(run.pid).children(recursive=True)
        run.terminate()
        run.wait(LONG_S)
    assert not psutil.wait_procs(started, timeout=60)[1]
    assert len(started) >= 4, "an API, a worker, a Redis, the minimal peer"
    assert recorded(out)
