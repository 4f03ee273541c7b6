"""Modules of tests that run in a process of their own: they replace CuPy, or have their memory measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 240


def printed_by(module: str, *arguments: str, given: str | None = None) -> str:
    """Raises AssertionError with what it wrote to stderr where it fails."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
