"""The service under faults, as `make chaos` runs it: no job is lost, wrong, doubled, stuck or failed by a fault that
passed. A run begins with a control that must be found out; docs/reliability.md says what it covers.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from secrets import randbelow

import pytest

pytestmark = pytest.mark.chaos

JOBS, FAULTS = 5000, 25
LEAST_FAULTS = 10  # on a machine with so much else to do that the run is cut short
FOR_S, TIMEOUT_S, CLEAN_UP_S = 330.0, 900.0, 120.0
SHOWN = 20_000


def test_every_job_is_accounted_for_under_faults(tmp_path: Path) -> None:
    """In a process of its own, which may have mounts of its own. What it said is shown however it ended."""
    log, record = tmp_path / "run.log", tmp_path / "record.json"
    asked = {"jobs": JOBS, "faults": FAULTS, "seed": randbelow(2**31), "for-s": FOR_S, "out": record}
    command = [sys.executable, "-m", "tests.chaos", *(f"--{name}={value}" for name, value in asked.items())]
    with open(log, "wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as run:
        status = _status(run)
    said = log.read_text(errors="replace")[-SHOWN:]
    print(said)
    assert status == 0, said
    assert json.loads(record.read_text())["runs"][0]["faults"] >= LEAST_FAULTS, said


def _status(run: subprocess.Popen[bytes]) -> int | str:
    """How it ended; where it does not, it is told to end all that it started."""
    try:
        return run.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        run.send_signal(signal.SIGINT)
        try:
            run.wait(CLEAN_UP_S)
        finally:
            run.kill()
        return f"did not end in {TIMEOUT_S:.0f} s"
