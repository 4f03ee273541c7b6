"""Programs start without what they do not use."""

from __future__ import annotations

import subprocess
import sys

import pytest

UNUSED = [
    ("worker.process.main", "click_repl"),  # Celery's other commands bring it, and a prompt's whole toolkit
    ("service.local.run", "service.app"),  # its child processes answer
]


@pytest.mark.parametrize(("program", "unused"), UNUSED)
def test_what_a_program_does_not_use_is_not_imported(program: str, unused: str) -> None:
    code = f"import sys, {program}\nassert {unused!r} not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
