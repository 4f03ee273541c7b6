"""Programs start without what they do not use, and keep what they do."""

from __future__ import annotations

import subprocess
import sys

import pytest

UNUSED = [
    ("worker.__main__", "click_repl"),  # Celery's other commands bring it, and a prompt's whole toolkit
    ("service.local.__main__", "service.app"),  # its child processes answer
    ("service.__main__", "service.app"),  # with several processes they do, too; wrong settings are said at once
    ("service.server.member", "matplotlib"),  # plots are drawn where they are asked for
]


@pytest.mark.parametrize(("program", "unused"), UNUSED)
def test_imports_of_a_program(program: str, unused: str) -> None:
    """What it does not use is not imported; the rest is never searched for garbage, but all that comes after it is."""
    is_kept = "gc.get_freeze_count() > 9 * len(gc.get_objects())"
    code = f"import gc, sys, {program}\nassert {unused!r} not in sys.modules\nassert gc.isenabled() and {is_kept}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
