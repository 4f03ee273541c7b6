"""A recording that is told to end: what it measured is there, and nothing of its stack goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil

from benchmarks.recorded import read

SLOW = {"timing": {"rounds": 9, "min_time_s": 2.0, "max_samples": 1000, "timeout_s": 9.0}, "shapes": [1024, 1152, 1280]}
LONG_S = 240.0


def recorded(results: Path) -> list[object]:
    """A file is there from the first look on, which may be before the first case has ended."""
    return read(results)["records"] if results.exists() else []


def test_a_recording_that_is_told_to_end_leaves_its_results_and_no_worker(tmp_path: Path) -> None:
    command = [
        "-m",
        "benchmarks.measure.presets",
        "--device",
        "cpu",
        "--out",
        str(tmp_path),
        "--set",
        json.dumps({"quick": SLOW}),
    ]
    found, ends_at = tmp_path / "quick.jsonl", time.monotonic() + LONG_S
    with subprocess.Popen([sys.executable, *command, "quick"], stdout=subprocess.PIPE, text=True) as recording:
        while not recorded(found) and time.monotonic() < ends_at:
            assert recording.poll() is None
            time.sleep(0.1)
        stack = psutil.Process(recording.pid).children(recursive=True)
        recording.terminate()
        recording.communicate(timeout=LONG_S)
    assert not psutil.wait_procs(stack, timeout=60)[1]
    assert len(stack) >= 3, "an API, a worker and a Redis"
    document = read(found)
    assert document["records"] and not document["complete"]
