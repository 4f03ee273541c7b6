"""The service under faults, as `make chaos` runs it: no job is lost, wrong, doubled, stuck or failed by a fault that
passed. A run begins with a control that must be found out; docs/reliability.md says what it covers.
"""

from __future__ import annotations

import subprocess
import sys
from secrets import randbelow

import pytest

pytestmark = pytest.mark.chaos

JOBS, FAULTS = 5000, 25
TIMEOUT_S = 480.0


def test_every_job_is_accounted_for_under_faults() -> None:
    """In a process of its own, which may have mounts of its own. Where it fails it says where its logs are."""
    asked = ["--jobs", JOBS, "--faults", FAULTS, "--seed", randbelow(2**31)]
    run = subprocess.run(
        [sys.executable, "-m", "tests.chaos", *map(str, asked)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    print(run.stdout)
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-4000:]
