"""Cases that a process of its own plays: it reads them as JSON lines, and prints what came of each."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def outcomes_of(module: str, cases: Mapping[str, Any], arguments: Iterable[str] = ()) -> dict[str, Any]:
    """By the name of the case."""
    lines = "".join(f"{json.dumps(case)}\n" for case in cases.values())
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return dict(zip(cases, map(json.loads, done.stdout.splitlines()), strict=True))
